pub(super) mod api;
pub(super) mod health;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencing_protocol::{Fault, Mode, NonEmpty, Renewed, Resource};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use scopeguard::guard;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::lock::backend::{Grant, LockBackend};
use crate::lock::error::{AcquireError, LeaseLost, Loss, NodeCause, RenewError};
use crate::lock::lease::ticket::LeaseTicket;
use crate::lock::lease::watchdog::Watchdogs;
use crate::lock::lease::{Lease, LeaseSet, SharedLease};
use crate::lock::runtime::sleep;
use crate::lock::settings::{BuildError, Settings};
use crate::lock::wait::queues::WaitQueues;
use crate::lock::wait::release_notifications::ReleaseNotifications;
use crate::lock::wait::wanted::{Ask, List, Target, Wanted};
use crate::sequencer::Sequencer;
use api::Lock;
use health::Health;

/// Time for which `try_acquire` waits for servers that start for the first time.
const FIRST_START_TIMEOUT: Duration = Duration::from_millis(1500);
/// The pause before it asks them again.
const FIRST_START_INTERVAL: Duration = Duration::from_millis(20);

/// How long `try_acquire` waits in the queue while this process makes very many concurrent attempts.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest that `settle` waits: longer than any request is retried.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A lock service over one back end: [`Redlock`](super::redlock::Redlock), `SqlLock`, `EtcdLock` or `ZookeeperLock`.
///
/// Its methods are documented at the trait [`Lock`]. Clones share the back end, its connections, and the local queues.
#[derive(Clone, derive_more::Debug)]
#[debug("LockService({backend:?}, {settings:?})")]
pub struct LockService<B> {
    pub(super) backend: B,
    notifications: Arc<ReleaseNotifications>,
    /// The requests of this client that are not answered yet.
    outstanding: TaskTracker,
    pub(super) queues: Arc<WaitQueues>,
    watchdogs: Arc<Watchdogs>,
    pub(super) settings: Settings,
}

impl<B: LockBackend> LockService<B> {
    /// Takes settings that were checked, what the servers report of releases, and the requests that `settle` waits for.
    pub(super) fn over(
        backend: B,
        notifications: Arc<ReleaseNotifications>,
        outstanding: TaskTracker,
        settings: Settings,
    ) -> LockService<B> {
        backend.prepare(&settings);
        // Otherwise `settle` would wait for ever.
        outstanding.close();
        let (queues, watchdogs) = Default::default();
        LockService { backend, notifications, outstanding, queues, watchdogs, settings }
    }

    fn with(&self, settings: Settings) -> LockService<B> {
        self.backend.prepare(&settings);
        LockService { settings, ..self.clone() }
    }

    /// Returns the same lock service with another TTL: see [`Lock::with_ttl`].
    pub fn with_ttl(&self, ttl: Duration) -> Result<LockService<B>, BuildError> {
        Ok(self.with(self.settings.with_ttl(ttl)?))
    }

    /// Returns the same lock service with another wait limit: see [`Lock::with_wait`].
    pub fn with_wait(&self, wait: Duration) -> Result<LockService<B>, BuildError> {
        Ok(self.with(Settings { wait, ..self.settings.clone() }.checked()?))
    }

    /// Returns the same lock service with another `lock_at_least_for`: see [`Lock::with_lock_at_least_for`].
    pub fn with_lock_at_least_for(&self, least: Duration) -> Result<LockService<B>, BuildError> {
        Ok(self.with(Settings { at_least: least, ..self.settings.clone() }.checked()?))
    }

    /// Acquires the lease of `resource`: see [`Lock::acquire`].
    pub async fn acquire(&self, resource: &Resource) -> Result<Lease, AcquireError> {
        require_runtime(resource)?;
        let mut wanted = self.wanted(Mode::Exclusive, self.one(resource));
        wanted.ask.drains = !self.settings.wait.is_zero();
        waited(self.queues.acquire(wanted, || self.attempt_one(resource, wanted.ask))).await
    }

    /// Acquires the lease of `resource` in one attempt: see [`Lock::try_acquire`].
    pub async fn try_acquire(&self, resource: &Resource) -> Result<Lease, AcquireError> {
        self.once(resource, Mode::Exclusive).await
    }

    /// Renews a lease that another process had: see [`Lock::resume`].
    pub async fn resume(&self, ticket: &LeaseTicket) -> Result<Lease, RenewError> {
        let Sequencer { resource, token } = ticket.sequencer.clone();
        let failed = |causes| RenewError::Failed { resource: resource.clone(), token, causes };
        let over = |loss| {
            let (resource, causes) = (resource.clone(), Vec::new());
            RenewError::Lost(LeaseLost { resource, token, loss, causes })
        };
        if Handle::try_current().is_err() {
            return Err(failed(vec![NodeCause::own(Fault::NoRuntime)]));
        }
        let misfit = |error: BuildError| failed(vec![NodeCause::own(Fault::Refused(error.to_string()))]);
        let own = Settings { lock_delay: ticket.lock_delay, ..self.settings.clone() };
        let settings = own.with_ttl(ticket.ttl).map_err(misfit)?;
        self.backend.prepare(&settings);
        let held = self.backend.resumed(ticket, &settings).await.map_err(|cause| failed(vec![cause]))?;
        let held = held.ok_or_else(|| over(Loss::Expired))?;
        let asked = settings.clock.now();
        match held.renew(true).await {
            Ok(Renewed::Until(deadline)) => {
                let grant = Grant { locks: NonEmpty::new(ticket.sequencer.clone()), asked, deadline, held };
                let lease = Lease::new(grant, &settings, Arc::clone(&self.queues), &self.watchdogs);
                // The other process may have it still.
                let _ = lease.hand_out();
                Ok(lease)
            }
            Ok(Renewed::Superseded) => Err(over(Loss::Expired)),
            Err(causes) => Err(failed(causes)),
        }
    }

    /// Acquires a shared lease of `resource`: see [`Lock::acquire_shared`].
    pub async fn acquire_shared(&self, resource: &Resource) -> Result<SharedLease, AcquireError> {
        require_runtime(resource)?;
        let wanted = self.wanted(Mode::Shared, self.one(resource));
        let attempt = || self.attempt_one(resource, wanted.ask);
        let waits = !self.settings.wait.is_zero();
        let acquired = async {
            // The first attempt does not queue: many may share the lock, and each would wait for the answer to the one
            // before. It is omitted if the last release notified another process, which is to come first.
            if !waits || !wanted.has_remote_waiters() {
                match attempt().await {
                    Err(_) if waits => {}
                    outcome => return outcome,
                }
            }
            self.queues.acquire(wanted, attempt).await
        };
        waited(acquired).await
    }

    /// Acquires a shared lease of `resource` in one attempt: see [`Lock::try_acquire_shared`].
    pub async fn try_acquire_shared(&self, resource: &Resource) -> Result<SharedLease, AcquireError> {
        self.once(resource, Mode::Shared).await
    }

    /// Acquires the lease of the first of the resources that is free: see [`Lock::acquire_any`].
    pub async fn acquire_any(&self, resources: &[Resource]) -> Result<Lease, AcquireError> {
        let list = List::any(resources)?;
        require_runtime(list.resources().first())?;
        let wanted = self.wanted(Mode::Exclusive, Target::List(&list));
        let is_first = AtomicBool::new(true);
        let round = || self.first_free(list.resources(), wanted.ask, is_first.swap(false, Ordering::Relaxed));
        waited(self.queues.acquire(wanted, round)).await
    }

    /// Acquires one lease of all of the resources: see [`Lock::acquire_all`].
    pub async fn acquire_all(&self, resources: &[Resource]) -> Result<LeaseSet, AcquireError> {
        let list = List::all(resources)?;
        require_runtime(list.resources().first())?;
        let wanted = self.wanted(Mode::Exclusive, Target::List(&list));
        let obstacle = Mutex::new(None);
        let attempt = || self.attempt_all(list.resources().clone(), wanted.ask, &obstacle);
        waited(self.queues.acquire(wanted, attempt)).await
    }

    /// Asks the servers for their state: see [`Lock::health`].
    pub async fn health(&self) -> Health {
        match Handle::try_current() {
            Ok(_) => self.backend.health(&self.settings).await,
            Err(_) => Health::of_one(vec![NodeCause::own(Fault::NoRuntime)]),
        }
    }

    /// Waits until all requests of this client are answered or have timed out: see [`Lock::settle`].
    pub async fn settle(&self) {
        tokio::select! {
            biased;
            () = self.outstanding.wait() => {}
            () = sleep(SETTLE_TIMEOUT) => {}
        }
    }

    fn wanted<'a>(&'a self, mode: Mode, target: Target<'a>) -> Wanted<'a> {
        let (since, settings) = (Instant::now(), &self.settings);
        Wanted { ask: Ask::new(mode, since + settings.wait), since, settings, target }
    }

    fn one<'a>(&'a self, resource: &'a Resource) -> Target<'a> {
        Target::One(resource, &self.notifications)
    }

    /// Makes one attempt, and more only while servers start for the first time.
    async fn once<K>(&self, resource: &Resource, mode: Mode) -> Result<Lease<K>, AcquireError> {
        require_runtime(resource)?;
        let now = Instant::now();
        let end = now + FIRST_START_TIMEOUT;
        let ask = Ask::new(mode, now + TURN_TIMEOUT);
        loop {
            match self.attempt_one(resource, ask).await {
                Err(error) if starts(&error) && Instant::now() < end => sleep(FIRST_START_INTERVAL).await,
                outcome => return outcome,
            }
        }
    }

    async fn attempt_one<K>(&self, resource: &Resource, ask: Ask) -> Result<Lease<K>, AcquireError> {
        self.attempt(&NonEmpty::new(resource.clone()), ask).await
    }

    /// Asks for each in order, and returns the first lease. The first round asks for all of them; later rounds end with
    /// the wait. A fault outranks `Held`: the resource with the fault may be free.
    async fn first_free(&self, names: &NonEmpty<Resource>, ask: Ask, is_first: bool) -> Result<Lease, AcquireError> {
        let mut outcome = self.attempt_one(names.first(), ask).await;
        for resource in names.tail() {
            let is_over = || !is_first && Instant::now() >= ask.end;
            let error = match outcome {
                Err(error) if !is_about_all(&error) && !is_over() => error,
                decided => return decided,
            };
            outcome = self.attempt_one(resource, ask).await;
            outcome = outcome.map_err(|next| graver(error, next));
        }
        outcome
    }

    /// Makes one attempt for all. It begins with the resource that was held the last time: a back end that asks for one
    /// after another then fails before it takes the others.
    async fn attempt_all(
        &self,
        mut resources: NonEmpty<Resource>,
        ask: Ask,
        obstacle: &Mutex<Option<Resource>>,
    ) -> Result<LeaseSet, AcquireError> {
        let first = obstacle.lock().clone();
        if let Some(head) = first {
            let tail = resources.into_iter().filter(|resource| *resource != head).collect();
            resources = NonEmpty { head, tail };
        }
        let outcome = self.attempt(&resources, ask).await;
        if let Err(AcquireError::Held { resource, .. }) = &outcome {
            *obstacle.lock() = Some(resource.clone());
        }
        outcome
    }

    /// Makes one attempt, notes it in log and metrics, and makes its grant a lease.
    #[tracing::instrument(name = "fencing.acquire", level = "debug", skip_all, fields(resource = %resources.first(), mode = ?ask.mode))]
    async fn attempt<K>(&self, resources: &NonEmpty<Resource>, ask: Ask) -> Result<Lease<K>, AcquireError> {
        let start = self.settings.clock.now();
        let outcome = self.backend.attempt(resources, ask, &self.settings).await;
        match &outcome {
            Ok(grant) => tracing::debug!(token = %grant.locks.first().token, "lease acquired"),
            Err(error) => tracing::debug!(%error, "lease not acquired"),
        }
        let label = outcome.as_ref().err().map_or("acquired", AcquireError::label);
        let took = self.settings.clock.now().since(start);
        metrics::counter!("fencing_attempts_total", "outcome" => label).increment(1);
        metrics::histogram!("fencing_attempt_seconds", "outcome" => label).record(took);
        Ok(Lease::new(outcome?, &self.settings, Arc::clone(&self.queues), &self.watchdogs))
    }
}

/// Counts a caller that may wait for a lock, and how long it took. A caller that gives up counts as `cancelled`.
async fn waited<T>(acquired: impl Future<Output = Result<T, AcquireError>>) -> Result<T, AcquireError> {
    metrics::gauge!("fencing_waiting").increment(1.0);
    let since = Instant::now();
    let mut outcome = guard("cancelled", move |outcome| {
        metrics::gauge!("fencing_waiting").decrement(1.0);
        metrics::histogram!("fencing_wait_seconds", "outcome" => outcome).record(since.elapsed());
    });
    let acquired = acquired.await;
    *outcome = acquired.as_ref().err().map_or("acquired", AcquireError::label);
    acquired
}

/// Timers and tasks need tokio: without its runtime they would panic.
fn require_runtime(resource: &Resource) -> Result<(), AcquireError> {
    let missing = |_| AcquireError::unavailable(resource, NodeCause::own(Fault::NoRuntime));
    Handle::try_current().map(drop).map_err(missing)
}

/// Writes methods of the trait, which are those of the type in a box.
macro_rules! boxed {
    ($($name:ident($($arg:ident: $type:ty)?) -> $output:ty;)*) => {$(
        fn $name<'a>(&'a self $(, $arg: &'a $type)?) -> BoxFuture<'a, $output> {
            Box::pin(self.$name($($arg)?))
        }
    )*};
}

impl<B: LockBackend> Lock for LockService<B> {
    boxed! {
        acquire(resource: Resource) -> Result<Lease, AcquireError>;
        try_acquire(resource: Resource) -> Result<Lease, AcquireError>;
        resume(ticket: LeaseTicket) -> Result<Lease, RenewError>;
        acquire_shared(resource: Resource) -> Result<SharedLease, AcquireError>;
        try_acquire_shared(resource: Resource) -> Result<SharedLease, AcquireError>;
        acquire_any(resources: [Resource]) -> Result<Lease, AcquireError>;
        acquire_all(resources: [Resource]) -> Result<LeaseSet, AcquireError>;
        health() -> Health;
        settle() -> ();
    }

    fn with_ttl(&self, ttl: Duration) -> Result<Arc<dyn Lock>, BuildError> {
        Ok(Arc::new(self.with_ttl(ttl)?))
    }

    fn with_wait(&self, wait: Duration) -> Result<Arc<dyn Lock>, BuildError> {
        Ok(Arc::new(self.with_wait(wait)?))
    }

    fn with_lock_at_least_for(&self, least: Duration) -> Result<Arc<dyn Lock>, BuildError> {
        Ok(Arc::new(self.with_lock_at_least_for(least)?))
    }
}

/// Reports whether an attempt failed because nodes start: none has a vote, and each will in the time of a first start.
fn starts(error: &AcquireError) -> bool {
    let AcquireError::NoQuorum { causes, .. } = error else { return false };
    !causes.is_empty()
        && causes.iter().all(|cause| match cause.cause {
            Fault::NotAdmitted => true,
            Fault::Quarantined(remaining) => remaining <= Duration::from_secs(1),
            _ => false,
        })
}

/// Reports whether the error would be that of every other resource, too.
fn is_about_all(error: &AcquireError) -> bool {
    matches!(error, AcquireError::Overloaded { .. } | AcquireError::Unavailable { .. })
}

/// Returns the error that says more: a fault, or which of the locks may be free soonest.
fn graver(one: AcquireError, other: AcquireError) -> AcquireError {
    let is_graver = match (&one, &other) {
        (AcquireError::Held { retry_after, .. }, AcquireError::Held { retry_after: next, .. }) => next < retry_after,
        (AcquireError::Held { .. }, _) => true,
        _ => is_about_all(&other),
    };
    if is_graver { other } else { one }
}
