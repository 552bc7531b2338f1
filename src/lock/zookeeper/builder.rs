use std::sync::Arc;

use super::backend::ZookeeperBackend;
use super::paths::Paths;
use super::sessions::ZookeeperSessions;
use super::url::ZookeeperUrl;
use super::{BuildError, ZookeeperLock, ZookeeperOperator, line};
use crate::lock::url_builder::UrlBuilder;
use crate::lock::wait::release_notifications::{ReleaseNotifications, Source};
use crate::lock::wait::subscriptions::Notifies;

/// Builds a [`ZookeeperLock`].
pub type ZookeeperLockBuilder = UrlBuilder<Arc<ZookeeperBackend>>;

impl ZookeeperLockBuilder {
    pub(super) fn new(url: String) -> ZookeeperLockBuilder {
        UrlBuilder::over(url, 4)
    }

    /// Builds the lock service. It connects with the first acquisition.
    ///
    /// # Errors
    /// [`BuildError`] says which value does not fit, and why.
    pub fn build(self) -> Result<ZookeeperLock, BuildError> {
        let sessions = self.sessions()?;
        let settings = self.settings.checked()?;
        let holder = settings.holder_name()?;
        let (opened, name) = (Arc::clone(&sessions), sessions.name());
        let (timeout, budget) = (settings.terms().closed_for(), settings.budget());
        let source = Source::new(&name, move || line::open(&opened, timeout, budget));
        let notifications = Arc::new(ReleaseNotifications::new(1, Notifies::Everyone, vec![source]));
        let outstanding = sessions.outstanding.clone();
        let backend = Arc::new(ZookeeperBackend { sessions, holder });
        Ok(ZookeeperLock::over(backend, self.clock, notifications, outstanding, settings))
    }

    /// Returns the operator functions. They ask nothing before the first call.
    pub(in crate::lock) fn operator(self) -> Result<ZookeeperOperator, BuildError> {
        Ok(ZookeeperOperator(self.sessions()?))
    }

    fn sessions(&self) -> Result<Arc<ZookeeperSessions>, BuildError> {
        let address = ZookeeperUrl::parse(&self.url);
        let address = address.map_err(|problem| BuildError::new("url", problem))?;
        if self.namespace.is_empty() {
            return Err(BuildError::new("namespace", "it is empty"));
        }
        let paths = Paths::new(&address.chroot, &self.namespace);
        Ok(Arc::new(ZookeeperSessions::new(address, paths, Arc::clone(&self.clock))))
    }
}
