//! What every lock service does, over any back end: acquire, wait, make leases, report health.

use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Mode, Resource};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::backend::{Ask, LockBackend};
use super::counted::waited;
use super::settings::Settings;
use super::sleep::within;
use super::wait::groups::Groups;
use super::wait::queues::WaitQueues;
use super::watchdog::Watchdogs;
use super::{AcquireError, BuildError, Health, Lease};

/// How long `try_acquire` waits for servers that start for the first time.
const FIRST_START: Duration = Duration::from_millis(1500);
/// The pause before it asks them again.
const FIRST_START_PAUSE: Duration = Duration::from_millis(20);

/// The longest that `settle` waits: longer than anything is tried.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// A lock service over one back end. Clones share the back end and the local queues.
#[derive(Clone)]
pub(crate) struct Service<B> {
    pub(super) backend: B,
    queues: Arc<WaitQueues>,
    watchdogs: Arc<Watchdogs>,
    pub(super) settings: Settings,
}

impl<B: LockBackend> Service<B> {
    /// Takes settings that were checked.
    pub(super) fn new(backend: B, settings: Settings) -> Service<B> {
        backend.prepare(&settings);
        Service { backend, queues: Arc::default(), watchdogs: Arc::default(), settings }
    }

    pub(super) fn with_ttl(&self, ttl: Duration) -> Result<Service<B>, BuildError> {
        let settings = self.settings.with_ttl(ttl)?;
        self.backend.prepare(&settings);
        Ok(Service { settings, ..self.clone() })
    }

    pub(super) fn with_wait(&self, wait: Duration) -> Result<Service<B>, BuildError> {
        let settings = Settings { wait, ..self.settings.clone() }.checked()?;
        Ok(Service { settings, ..self.clone() })
    }

    pub(super) fn with_lock_at_least_for(&self, least: Duration) -> Result<Service<B>, BuildError> {
        let settings = Settings { at_least: least, ..self.settings.clone() }.checked()?;
        Ok(Service { settings, ..self.clone() })
    }

    pub(super) async fn acquire(&self, resource: &Resource) -> Result<Lease, AcquireError> {
        self.runtime(resource)?;
        let wait = self.settings.wait;
        let waits = (!wait.is_zero()).then(|| Instant::now() + wait);
        let attempt = || self.attempt(resource, Ask { waits, ..Ask::ONCE });
        let asked = (&self.backend, resource, &self.settings);
        waited(self.queues.acquire(asked, Mode::Exclusive, attempt)).await
    }

    /// Makes one attempt, and more only while servers start for the first time.
    pub(super) async fn try_acquire(&self, resource: &Resource) -> Result<Lease, AcquireError> {
        self.once(resource, Mode::Exclusive).await
    }

    pub(super) async fn once(
        &self,
        resource: &Resource,
        mode: Mode,
    ) -> Result<Lease, AcquireError> {
        self.runtime(resource)?;
        let ask = Ask { mode, ..Ask::ONCE };
        let end = Instant::now() + FIRST_START;
        loop {
            match self.attempt(resource, ask).await {
                Err(error) if starts(&error) && Instant::now() < end => {
                    sleep(FIRST_START_PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }

    pub(super) async fn settle(&self) {
        within(SETTLE_LIMIT, self.backend.settle()).await;
    }

    pub(super) fn queues(&self) -> &Arc<WaitQueues> {
        &self.queues
    }

    pub(super) fn watchdogs(&self) -> &Watchdogs {
        &self.watchdogs
    }

    pub(super) fn groups(&self) -> &Groups {
        self.queues.groups()
    }

    pub(super) async fn health(&self) -> Health {
        match Handle::try_current() {
            Ok(_) => self.backend.health(&self.settings).await,
            Err(_) => self.backend.failing(Fault::NoRuntime),
        }
    }

    /// Makes one attempt, notes it in log and metrics, and makes its grant a lease.
    #[tracing::instrument(name = "fencing.acquire", level = "debug", skip_all, fields(%resource, mode = ?ask.mode))]
    pub(super) async fn attempt(
        &self,
        resource: &Resource,
        ask: Ask,
    ) -> Result<Lease, AcquireError> {
        let clock = self.backend.clock();
        let start = clock.now();
        let outcome = self.backend.attempt(resource, ask, &self.settings).await;
        match &outcome {
            Ok(grant) => tracing::debug!(token = %grant.token, "lease acquired"),
            Err(error) => tracing::debug!(%error, "lease not acquired"),
        }
        record(clock.now().since(start), outcome.as_ref().err());
        let (clock, queues) = (Arc::clone(clock), Arc::clone(&self.queues));
        let (asked, watchdogs) = ((start, &self.settings), self.watchdogs());
        Ok(Lease::new(resource.clone(), outcome?, clock, asked, queues, watchdogs))
    }

    /// Timers and tasks need tokio: without its runtime they would panic.
    pub(super) fn runtime(&self, resource: &Resource) -> Result<(), AcquireError> {
        let missing = |_| self.backend.unavailable(resource, Fault::NoRuntime);
        Handle::try_current().map(drop).map_err(missing)
    }
}

/// Notes an attempt in the metrics.
pub(super) fn record(elapsed: Duration, error: Option<&AcquireError>) {
    let label = error.map_or("acquired", AcquireError::label);
    metrics::counter!("fencing_attempts_total", "outcome" => label).increment(1);
    metrics::histogram!("fencing_attempt_seconds", "outcome" => label).record(elapsed);
}

/// Reports whether the attempt failed because nodes start: none of them has a vote, and each will
/// have one within the time of a first start.
fn starts(error: &AcquireError) -> bool {
    let AcquireError::NoQuorum { causes, .. } = error else { return false };
    !causes.is_empty()
        && causes.iter().all(|cause| match cause.cause {
            Fault::NotAdmitted => true,
            Fault::Quarantined(remaining) => remaining <= Duration::from_secs(1),
            _ => false,
        })
}

/// Writes the public methods of a lock service, and its implementation of [`Lock`](super::Lock).
macro_rules! lock_service {
    ($lock:ty $(, $DB:ident: $Bound:path)?) => {
        const _: () = {
            use std::sync::Arc;
            use std::time::Duration;

            use futures_util::future::BoxFuture;

            use $crate::lock::{
                AcquireError, BuildError, Health, Lease, LeaseSet, Lock, SharedLease,
            };
            use fencing_protocol::Resource;

            impl$(<$DB: $Bound>)? $lock {
                /// Returns the same lock service with another TTL: connections and queues are
                /// shared.
                ///
                /// # Errors
                /// [`BuildError`](crate::lock::BuildError) if the TTL is out of bounds, or too
                /// short for the budget or the drift.
                pub fn with_ttl(&self, ttl: Duration) -> Result<$lock, BuildError> {
                    Ok(Self(self.0.with_ttl(ttl)?))
                }

                /// Returns the same lock service with another wait limit of
                /// [`acquire`](Self::acquire).
                ///
                /// # Errors
                /// [`BuildError`](crate::lock::BuildError) if it is longer than a year.
                pub fn with_wait(&self, wait: Duration) -> Result<$lock, BuildError> {
                    Ok(Self(self.0.with_wait(wait)?))
                }

                /// Returns the same lock service with another least time for which a lock stays
                /// closed: see the builder's `lock_at_least_for`.
                ///
                /// # Errors
                /// [`BuildError`](crate::lock::BuildError) if it is longer than the TTL.
                pub fn with_lock_at_least_for(&self, least: Duration) -> Result<$lock, BuildError> {
                    Ok(Self(self.0.with_lock_at_least_for(least)?))
                }

                /// Asks the servers how they stand, within the budget. Nodes that are not
                /// admitted are brought back in the background, as after an acquisition.
                ///
                /// # Cancel safety
                /// It changes nothing.
                pub async fn health(&self) -> Health {
                    self.0.health().await
                }

                /// Acquires the lease of `resource`. Waits in a fair local queue and then for
                /// the holder, up to the wait limit.
                ///
                /// # Errors
                /// [`AcquireError`](crate::lock::AcquireError) of the last attempt.
                ///
                /// # Cancel safety
                /// If you drop the future at any point, it releases what it can, and leaves no lock
                /// behind for longer than the TTL and the lock-delay.
                pub async fn acquire(&self, resource: &Resource) -> Result<Lease, AcquireError> {
                    self.0.acquire(resource).await
                }

                /// Acquires the lease of `resource` in one attempt. Waits only for nodes that
                /// start for the first time, about a second.
                ///
                /// # Errors
                /// [`AcquireError`](crate::lock::AcquireError).
                ///
                /// # Cancel safety
                /// As for [`acquire`](Self::acquire).
                pub async fn try_acquire(
                    &self,
                    resource: &Resource,
                ) -> Result<Lease, AcquireError> {
                    self.0.try_acquire(resource).await
                }

                /// Acquires a part in the lock of `resource`, which others may share: see
                /// [`SharedLease`](crate::lock::SharedLease). Waits while somebody holds the lock
                /// alone, or waits to hold it alone, up to the wait limit.
                ///
                /// # Errors
                /// [`AcquireError`](crate::lock::AcquireError) of the last attempt.
                ///
                /// # Cancel safety
                /// As for [`acquire`](Self::acquire).
                pub async fn acquire_shared(
                    &self,
                    resource: &Resource,
                ) -> Result<SharedLease, AcquireError> {
                    self.0.acquire_shared(resource).await
                }

                /// Acquires a part in the lock of `resource`, which others may share, in one
                /// attempt. Waits only for nodes that start for the first time, about a second.
                ///
                /// # Errors
                /// [`AcquireError`](crate::lock::AcquireError): `Held` if somebody holds the lock
                /// alone, or waits to hold it alone.
                ///
                /// # Cancel safety
                /// As for [`acquire`](Self::acquire).
                pub async fn try_acquire_shared(
                    &self,
                    resource: &Resource,
                ) -> Result<SharedLease, AcquireError> {
                    self.0.try_acquire_shared(resource).await
                }

                /// Acquires the lease of the first of the resources that is free, or becomes free within
                /// the wait limit. Use it for buckets, any of which will do. It asks for each in its
                /// order. Callers in one process that wait for the same list wait in a fair queue.
                ///
                /// # Errors
                /// [`AcquireError`](crate::lock::AcquireError) of the last attempts: `Held` if all are
                /// held, with the time at which the first of them may be free; a fault if one had
                /// any; `WrongCount` if the list is empty, or longer than 128.
                ///
                /// # Cancel safety
                /// As for [`acquire`](Self::acquire).
                pub async fn acquire_any(
                    &self,
                    resources: &[Resource],
                ) -> Result<Lease, AcquireError> {
                    self.0.acquire_any(resources).await
                }

                /// Acquires one lease of all of the resources, with a token for each. Waits until all are
                /// free at one time, up to the wait limit, and holds none of them meanwhile: clients
                /// never wait for each other, in whatever order they name the resources. A resource
                /// that is named twice counts once.
                ///
                /// # Errors
                /// [`AcquireError`](crate::lock::AcquireError) of the last attempt: `Held` names one that
                /// is held; `WrongCount` if the list is empty, or has more than 128 resources.
                ///
                /// # Cancel safety
                /// As for [`acquire`](Self::acquire).
                pub async fn acquire_all(
                    &self,
                    resources: &[Resource],
                ) -> Result<LeaseSet, AcquireError> {
                    self.0.acquire_all(resources).await
                }

                /// Waits until everything that this client has sent is answered or was given up, for
                /// a minute at most. That includes the releases of dropped attempts and leases, and
                /// a node that is being brought back. Call it at the end of a program.
                ///
                /// # Cancel safety
                /// It changes nothing.
                pub async fn settle(&self) {
                    self.0.settle().await;
                }
            }

            impl$(<$DB: $Bound>)? Lock for $lock {
                fn acquire<'a>(
                    &'a self,
                    resource: &'a Resource,
                ) -> BoxFuture<'a, Result<Lease, AcquireError>> {
                    Box::pin(self.0.acquire(resource))
                }

                fn try_acquire<'a>(
                    &'a self,
                    resource: &'a Resource,
                ) -> BoxFuture<'a, Result<Lease, AcquireError>> {
                    Box::pin(self.0.try_acquire(resource))
                }

                fn acquire_shared<'a>(
                    &'a self,
                    resource: &'a Resource,
                ) -> BoxFuture<'a, Result<SharedLease, AcquireError>> {
                    Box::pin(self.0.acquire_shared(resource))
                }

                fn try_acquire_shared<'a>(
                    &'a self,
                    resource: &'a Resource,
                ) -> BoxFuture<'a, Result<SharedLease, AcquireError>> {
                    Box::pin(self.0.try_acquire_shared(resource))
                }

                fn acquire_any<'a>(
                    &'a self,
                    resources: &'a [Resource],
                ) -> BoxFuture<'a, Result<Lease, AcquireError>> {
                    Box::pin(self.0.acquire_any(resources))
                }

                fn acquire_all<'a>(
                    &'a self,
                    resources: &'a [Resource],
                ) -> BoxFuture<'a, Result<LeaseSet, AcquireError>> {
                    Box::pin(self.0.acquire_all(resources))
                }

                fn health(&self) -> BoxFuture<'_, Health> {
                    Box::pin(self.0.health())
                }

                fn settle(&self) -> BoxFuture<'_, ()> {
                    Box::pin(self.0.settle())
                }

                fn with_ttl(&self, ttl: Duration) -> Result<Arc<dyn Lock>, BuildError> {
                    Ok(Arc::new(Self(self.0.with_ttl(ttl)?)))
                }

                fn with_wait(&self, wait: Duration) -> Result<Arc<dyn Lock>, BuildError> {
                    Ok(Arc::new(Self(self.0.with_wait(wait)?)))
                }

                fn with_lock_at_least_for(
                    &self,
                    least: Duration,
                ) -> Result<Arc<dyn Lock>, BuildError> {
                    Ok(Arc::new(Self(self.0.with_lock_at_least_for(least)?)))
                }
            }
        };
    };
}

pub(super) use lock_service;
