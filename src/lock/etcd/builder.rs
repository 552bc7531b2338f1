use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::backend::EtcdBackend;
use super::client::EtcdClient;
use super::cluster::Cluster;
use super::keys::EtcdKeys;
use super::line;
use super::operator::EtcdOperator;
use super::session::MIN_SECONDS;
use super::sessions::EtcdSessions;
use super::url::EtcdUrl;
use super::{BuildError, EtcdLock};
use crate::lock::token_base::Largest;
use crate::lock::url_builder::UrlBuilder;
use crate::lock::wait::release_notifications::{ReleaseNotifications, Source};
use crate::lock::wait::subscriptions::Notifies;

/// Builds an [`EtcdLock`].
pub type EtcdLockBuilder = UrlBuilder<Arc<EtcdBackend>>;

impl EtcdLockBuilder {
    pub(super) fn new(url: String) -> EtcdLockBuilder {
        let mut builder = UrlBuilder::over(url, 3);
        builder.settings.least_ttl = Duration::from_secs(MIN_SECONDS);
        builder
    }

    /// Builds the lock service. It connects with the first acquisition.
    ///
    /// # Errors
    /// [`BuildError`] says which value does not fit, and why.
    pub fn build(self) -> Result<EtcdLock, BuildError> {
        let settings = self.settings.clone().checked()?;
        let holder = settings.holder_name()?;
        let sessions = Arc::new(EtcdSessions::new(self.cluster()?));
        let (opened, waits) = (Arc::clone(&sessions), settings.clone());
        let name = sessions.cluster.client.name();
        let source = Source::new(&name, move || line::open(&opened, &waits));
        let notifications = Arc::new(ReleaseNotifications::new(1, Notifies::Everyone, vec![source]));
        let (clock, outstanding) = (Arc::clone(&sessions.cluster.clock), sessions.cluster.requests.clone());
        let backend = Arc::new(EtcdBackend { sessions, holder, warned: false.into() });
        Ok(EtcdLock::over(backend, clock, notifications, outstanding, settings))
    }

    pub(in crate::lock) fn operator(self) -> Result<EtcdOperator, BuildError> {
        let budget = self.settings.budget();
        Ok(EtcdOperator { cluster: self.cluster()?, budget })
    }

    fn cluster(self) -> Result<Cluster, BuildError> {
        let client = EtcdClient::new(EtcdUrl::read(&self.url)?);
        let keys = EtcdKeys::new(&self.namespace).map_err(|problem| BuildError::new("namespace", problem))?;
        let (requests, clock, largest) = (TaskTracker::new(), self.clock, Largest::default());
        Ok(Cluster { client, keys, clock, largest, requests })
    }
}
