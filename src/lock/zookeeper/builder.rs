use std::sync::Arc;
use std::time::Duration;

use super::backend::Ensemble;
use super::paths::Paths;
use super::sessions::Sessions;
use super::url::Address;
use super::{BuildError, ZookeeperLock, ZookeeperOperator, line};
use crate::lock::settings::{Settings, settings_setters};
use crate::lock::wait::release_notifications::{ReleaseNotifications, Source};
use crate::lock::wait::subscriptions::Notifies;
use crate::time::{Clock, SystemClock};

/// The budget where none is set: this, or a quarter of a short TTL.
const BUDGET: Duration = Duration::from_secs(2);

/// Builds a [`ZookeeperLock`].
#[derive(Clone, derive_more::Debug)]
#[must_use]
pub struct ZookeeperLockBuilder {
    // It may have a password.
    #[debug(skip)]
    url: String,
    namespace: String,
    clock: Arc<dyn Clock>,
    pub(in crate::lock) settings: Settings,
}

impl ZookeeperLockBuilder {
    pub(super) fn new(url: String) -> ZookeeperLockBuilder {
        let settings = Settings::new("budget", (BUDGET, 4));
        ZookeeperLockBuilder { url, namespace: "fencing".into(), clock: Arc::new(SystemClock), settings }
    }

    /// Sets the node, below the chroot of the URL, that contains all others. Default: `fencing`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> ZookeeperLockBuilder {
        self.namespace = namespace.into();
        self
    }

    /// Sets the clock that leases are timed by in this process. Default: [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock) -> ZookeeperLockBuilder {
        self.clock = Arc::new(clock);
        self
    }

    settings_setters!();

    /// Sets how long the servers may take to answer. Default: 2 s, or a quarter of the TTL if that is less.
    pub fn budget(mut self, budget: Duration) -> ZookeeperLockBuilder {
        self.settings.budget = Some(budget);
        self
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
        let notifications = ReleaseNotifications::new(1, Notifies::Everyone, vec![source]);
        let ensemble = Ensemble { sessions, holder, notifications };
        Ok(ZookeeperLock::over(Arc::new(ensemble), settings))
    }

    /// Returns the operator functions. They ask nothing before the first call.
    pub(in crate::lock) fn operator(self) -> Result<ZookeeperOperator, BuildError> {
        Ok(ZookeeperOperator(self.sessions()?))
    }

    fn sessions(&self) -> Result<Arc<Sessions>, BuildError> {
        let address = Address::parse(&self.url);
        let address = address.map_err(|problem| BuildError::new("url", problem))?;
        if self.namespace.is_empty() {
            return Err(BuildError::new("namespace", "it is empty"));
        }
        let paths = Paths::new(&address.chroot, &self.namespace);
        Ok(Arc::new(Sessions::new(address, paths, Arc::clone(&self.clock))))
    }
}
