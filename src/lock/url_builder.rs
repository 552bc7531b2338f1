use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::settings::{Settings, settings_setters};
use crate::time::{Clock, SystemClock};

/// The budget where none is set: this, or a part of a short TTL.
const BUDGET: Duration = Duration::from_secs(2);

/// Builds a lock service on an engine that a URL names: etcd or ZooKeeper.
#[derive(Clone, derive_more::Debug)]
#[must_use]
pub struct UrlBuilder<B> {
    // It may have a password.
    #[debug(skip)]
    pub(super) url: String,
    pub(super) namespace: String,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) settings: Settings,
    backend: PhantomData<fn() -> B>,
}

impl<B> UrlBuilder<B> {
    /// Where none is set, the budget is at most this `part` of the TTL.
    pub(super) fn over(url: String, part: u32) -> UrlBuilder<B> {
        let settings = Settings::new("budget", (BUDGET, part));
        UrlBuilder { url, namespace: "fencing".into(), clock: Arc::new(SystemClock), settings, backend: PhantomData }
    }

    /// Sets what the keys in etcd begin with, printable ASCII without slashes, or the ZooKeeper node, below the chroot
    /// of the URL, that contains all others. Separate lock services need different namespaces. Default: `fencing`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> UrlBuilder<B> {
        self.namespace = namespace.into();
        self
    }

    /// Sets the clock that leases are timed by in this process. Default: [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock) -> UrlBuilder<B> {
        self.clock = Arc::new(clock);
        self
    }

    settings_setters!();

    /// Sets how long the servers may take to answer one request. Default: 2 s, or a part of the TTL if that is less: a
    /// third for etcd, a quarter for ZooKeeper.
    pub fn budget(mut self, budget: Duration) -> UrlBuilder<B> {
        self.settings.budget = Some(budget);
        self
    }
}
