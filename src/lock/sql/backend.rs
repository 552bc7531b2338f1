use std::sync::Arc;

use super::attempt::attempt;
use super::attempt_all::attempt_all;
use super::table::LeaseTable;
use crate::database::Database;
use crate::lock::backend::LockBackend;
use crate::lock::held_lock::{Grant, GrantAll};
use crate::lock::settings::Settings;
use crate::lock::{AcquireError, Health};
use crate::protocol::Fault;
use crate::resource::Resource;
use crate::time::Clock;

impl<DB: Database> LockBackend for Arc<LeaseTable<DB>> {
    fn clock(&self) -> &Arc<dyn Clock> {
        LeaseTable::clock(self)
    }

    async fn attempt(
        &self,
        resource: &Resource,
        settings: &Settings,
    ) -> Result<Grant, AcquireError> {
        attempt(self, resource, settings.terms(), settings.budget()).await
    }

    async fn attempt_all(
        &self,
        resources: &[Resource],
        settings: &Settings,
    ) -> Result<GrantAll, AcquireError> {
        attempt_all(self, resources, settings.terms(), settings.budget()).await
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
        self.in_flight().over().await;
    }
}
