use std::sync::Arc;

use fencing_protocol::{Fault, NonEmpty, Resource};

use super::attempt::attempt;
use super::table::LeaseTable;
use crate::database::Database;
use crate::lock::error::AcquireError;
use crate::lock::lease::held_lock::Grant;
use crate::lock::service::backend::{Ask, LockBackend};
use crate::lock::service::health::Health;
use crate::lock::settings::Settings;
use crate::lock::wait::backoff::Drains;
use crate::lock::wait::release_notifications::ReleaseNotifications;
use crate::time::Clock;

impl<DB: Database> LockBackend for Arc<LeaseTable<DB>> {
    fn clock(&self) -> &Arc<dyn Clock> {
        LeaseTable::clock(self)
    }

    async fn attempt(
        &self,
        resources: &NonEmpty<Resource>,
        ask: Ask,
        settings: &Settings,
    ) -> Result<Grant, AcquireError> {
        // Until it asks again. An answer is seldom as late as it may be.
        let drains = ask.waits.map(|end| Drains::new(settings, settings.budget() / 2, end));
        attempt(self, resources, (ask.mode, drains), settings.terms(), settings.budget()).await
    }

    fn notifications(&self) -> &ReleaseNotifications {
        LeaseTable::notifications(self)
    }

    async fn health(&self, settings: &Settings) -> Health {
        LeaseTable::health(self, settings.budget()).await
    }

    fn failing(&self, fault: Fault) -> Health {
        self.health_with(Some(fault))
    }

    fn unavailable(&self, resource: &Resource, fault: Fault) -> AcquireError {
        AcquireError::Unavailable { resource: resource.clone(), cause: self.cause(fault) }
    }

    fn prepare(&self, _: &Settings) {}

    async fn settle(&self) {
        self.over().await;
    }
}
