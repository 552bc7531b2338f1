use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::backend::EtcdCluster;
use super::client::Client;
use super::cluster::Cluster;
use super::keys::Keys;
use super::line;
use super::operator::EtcdOperator;
use super::session::MIN_SECONDS;
use super::sessions::Sessions;
use super::url::Address;
use super::{BuildError, EtcdLock};
use crate::lock::settings::{Settings, settings_setters};
use crate::lock::token_base::Largest;
use crate::lock::wait::release_notifications::{ReleaseNotifications, Source};
use crate::lock::wait::subscriptions::Notifies;
use crate::time::{Clock, SystemClock};

/// The budget where none is set: this, or a third of a short TTL.
const BUDGET: Duration = Duration::from_secs(2);

/// Builds an [`EtcdLock`].
#[derive(Clone, derive_more::Debug)]
#[must_use]
pub struct EtcdLockBuilder {
    // It may have a password.
    #[debug(skip)]
    url: String,
    namespace: String,
    clock: Arc<dyn Clock>,
    pub(in crate::lock) settings: Settings,
}

impl EtcdLockBuilder {
    pub(super) fn new(url: String) -> EtcdLockBuilder {
        let settings = Settings { least_ttl: Duration::from_secs(MIN_SECONDS), ..Settings::new("budget", (BUDGET, 3)) };
        let clock = Arc::new(SystemClock);
        EtcdLockBuilder { url, namespace: "fencing".into(), clock, settings }
    }

    /// Sets what the keys begin with: printable ASCII without slashes. Separate lock services need different
    /// namespaces. Default: `fencing`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> EtcdLockBuilder {
        self.namespace = namespace.into();
        self
    }

    /// Sets the clock that leases are timed by in this process. Default: [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock) -> EtcdLockBuilder {
        self.clock = Arc::new(clock);
        self
    }

    settings_setters!();

    /// Sets how long the cluster may take to answer one request. Default: 2 s, or a third of the TTL if that is less.
    pub fn budget(mut self, budget: Duration) -> EtcdLockBuilder {
        self.settings.budget = Some(budget);
        self
    }

    /// Builds the lock service. It connects with the first acquisition.
    ///
    /// # Errors
    /// [`BuildError`] says which value does not fit, and why.
    pub fn build(self) -> Result<EtcdLock, BuildError> {
        let settings = self.settings.clone().checked()?;
        let holder = settings.holder_name()?;
        let sessions = Arc::new(Sessions::new(self.cluster()?));
        let (opened, waits) = (Arc::clone(&sessions), settings.clone());
        let name = sessions.cluster.client.name();
        let source = Source::new(&name, move || line::open(&opened, &waits));
        let notifications = ReleaseNotifications::new(1, Notifies::Everyone, vec![source]);
        let cluster = EtcdCluster { sessions, holder, notifications, warned: false.into() };
        Ok(EtcdLock::over(Arc::new(cluster), settings))
    }

    pub(in crate::lock) fn operator(self) -> Result<EtcdOperator, BuildError> {
        let budget = self.settings.budget();
        Ok(EtcdOperator { cluster: self.cluster()?, budget })
    }

    fn cluster(self) -> Result<Cluster, BuildError> {
        let client = Client::new(Address::read(&self.url)?);
        let keys = Keys::new(&self.namespace).map_err(|problem| BuildError::new("namespace", problem))?;
        let (requests, clock, largest) = (TaskTracker::new(), self.clock, Largest::default());
        requests.close();
        Ok(Cluster { client, keys, clock, largest, requests })
    }
}
