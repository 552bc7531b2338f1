mod holding;
pub(crate) mod state;
pub(crate) mod ticket;
pub(super) mod watchdog;

use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use fencing_protocol::{Released, Resource, Token};
use scopeguard::{ScopeGuard, guard};
use tokio::runtime::Handle;

use crate::lock::backend::Grant;
use crate::lock::error::{LeaseLost, Loss, NodeCause, ReleaseError, RenewError};
use crate::lock::runtime::in_runtime;
use crate::lock::settings::Settings;
use crate::lock::wait::queues::WaitQueues;
use crate::sequencer::{HeldToken, Sequencer};
use holding::Holding;
use ticket::LeaseTicket;
use watchdog::{Watch, Watchdogs};

/// A time-limited lock and its fencing token.
///
/// A watchdog renews it every third of its TTL until it is released, lost, or held for `max_hold`. A dropped lease
/// sends its release without waiting for an answer; if it was lost before, the lock stays held for its lock-delay.
///
/// **Fencing.** A lease may be lost at any moment, even between a check and a write. Only a storage
/// that compares [`token`](Lease::token) makes a late write safe.
///
/// A [`SharedLease`] is a read lock, a [`LeaseSet`] is a lease of several resources. They are separate types, so
/// that code that needs an exclusive lease of one resource can't take them.
#[must_use = "a lease that is dropped is released"]
#[derive(derive_more::Debug)]
#[debug("Lease {{ locks: {:?}, valid_for: {:?}, .. }}", holding.locks, self.valid_for())]
pub struct Lease<K = Exclusive> {
    holding: Arc<Holding>,
    runtime: Handle,
    /// Until its release it is renewed, if that is enabled, and counts in the metrics.
    active: Option<(Option<Watch>, Gauge)>,
    kind: PhantomData<fn() -> K>,
}

type Gauge = ScopeGuard<Instant, fn(Instant)>;

/// A read lock, from [`acquire_shared`](super::Lock::acquire_shared). While it lasts, no client holds the lock
/// exclusively. Each is renewed, lost and released by itself, like a [`Lease`]; the last one to end frees the lock.
///
/// **Fencing.** The token is larger than that of every exclusive lease before it, and smaller than that of
/// each one after. The holders of a shared lock have equal tokens if the counts of the nodes agree, and may
/// have different ones otherwise. So a storage that compares tokens refuses a reader once a later writer has
/// written. It does not fence the writes of readers against each other. If your token is smaller than
/// another reader's, the storage may refuse you after that reader has written: acquire again.
pub type SharedLease = Lease<Shared>;

/// A lease of several resources, with a token for each, from [`acquire_all`](super::Lock::acquire_all). It is renewed,
/// lost and released as a whole, like a [`Lease`]: it ends for all when it ends for one. Errors name the first.
///
/// **Fencing.** Give each write the token of its resource.
pub type LeaseSet = Lease<Several>;

/// The kind of a [`Lease`] with one exclusive lock.
pub enum Exclusive {}

/// The kind of a [`SharedLease`].
pub enum Shared {}

/// The kind of a [`LeaseSet`].
pub enum Several {}

/// The kinds of a [`Lease`] of one resource.
pub trait OfOne {}

impl OfOne for Exclusive {}
impl OfOne for Shared {}

impl Lease<Several> {
    /// Returns the fencing token of a resource; `None` if it is not part of the lease.
    #[must_use]
    pub fn token_of(&self, resource: &Resource) -> Option<Token> {
        let pairs = self.sequencers();
        let place = pairs.binary_search_by(|pair| pair.resource.cmp(resource)).ok()?;
        pairs.get(place).map(|pair| pair.token)
    }

    /// Returns each resource with its token, in the order of their names.
    #[must_use]
    pub fn sequencers(&self) -> &[Sequencer] {
        &self.holding.locks
    }
}

impl Lease {
    /// Returns what another process needs to go on with the lease; each back end of this crate has it.
    ///
    /// That process may release it without this one knowing. So both now renew only what a majority still has.
    #[must_use]
    pub fn ticket(&self) -> Option<LeaseTicket> {
        Some(self.hand_out())
    }

    /// The same, for a lease that another process may have already.
    pub(super) fn hand_out(&self) -> LeaseTicket {
        self.holding.hand_out()
    }

    /// Forgets the lease in this process, without a release: another one goes on with it, or it ends at its TTL.
    pub fn leave(mut self) {
        self.close();
        self.holding.wake(false);
    }
}

impl<K: OfOne> Lease<K> {
    /// Returns the fencing token: give it to every protected write.
    #[must_use]
    pub fn token(&self) -> Token {
        self.holding.first.token
    }

    /// Returns the token together with the resource that it was issued for. If the other side takes
    /// the pair, give it the pair: then the token cannot be used for another resource by mistake.
    #[must_use]
    pub fn sequencer(&self) -> Sequencer {
        self.holding.first.clone()
    }

    /// Returns the resource.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.holding.first.resource
    }
}

impl<K> Lease<K> {
    pub(super) fn new(grant: Grant, settings: &Settings, queues: Arc<WaitQueues>, watchdogs: &Watchdogs) -> Lease<K> {
        metrics::gauge!("fencing_leases").increment(1.0);
        let counted: Gauge = guard(Instant::now(), |since| {
            metrics::gauge!("fencing_leases").decrement(1.0);
            metrics::histogram!("fencing_hold_seconds").record(since.elapsed());
        });
        let holding = Arc::new(Holding::new(grant, settings, queues));
        let runtime = Handle::current();
        let watch = || watchdogs.watch(&runtime, Arc::clone(&holding), settings.ttl);
        let active = Some((settings.renew.then(watch), counted));
        Lease { holding, runtime, active, kind: PhantomData }
    }

    /// Returns how long the lease lasts from now unless it is renewed; zero after its end.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.holding.state.valid_for()
    }

    /// Waits for the end of the lease, and returns its cause: at its deadline at the latest, even if no server answers.
    /// The deadline includes time while the machine is suspended, if the system has such a clock.
    ///
    /// # Cancel safety
    /// You may await any number of these, and drop them.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<K> {
        let state = Arc::clone(&self.holding.state);
        async move { state.over().await }
    }

    /// Returns why the last renewal failed, by node or database. Empty if none has failed, or one has succeeded since.
    #[must_use]
    pub fn renewal_failure(&self) -> Vec<NodeCause> {
        self.holding.failure.lock().clone()
    }

    /// Runs `work` and drops it the moment the lease is lost. If it returns a `Result`, you get one inside another:
    /// `lease.run(write(token)).await??` returns an error if the lease was lost, or the write failed or was stale.
    ///
    /// # Errors
    /// [`LeaseLost`] if the lease ended first. The work may have been done in part.
    ///
    /// # Cancel safety
    /// If you drop the future, it drops the work. The lease stays.
    ///
    /// **Fencing.** A request that the work has already sent may still arrive: give it the token.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LeaseLost> {
        let mut lost = pin!(self.lost());
        let mut work = pin!(work);
        poll_fn(|context| {
            let loss = match lost.as_mut().poll(context) {
                Poll::Ready(loss) => Some(loss),
                // Timers may lag behind the clock: never poll the work of a lapsed lease.
                Poll::Pending => self.holding.state.deadline().err(),
            };
            match loss {
                Some(loss) => Poll::Ready(Err(self.lost_by(loss))),
                None => work.as_mut().poll(context).map(Ok),
            }
        })
        .await
    }

    /// Renews the lease once, now, and returns how long it lasts from now. You need this if the watchdog is switched
    /// off (`renew(false)`). A lease that has reached its longest hold is not renewed.
    ///
    /// # Errors
    /// [`RenewError::Lost`] if the lease has ended. [`RenewError::Failed`] if too few nodes
    /// answered: the lease lasts until its old deadline, and you may try again.
    ///
    /// Outside of a tokio runtime, the runtime in which the lease was acquired does the work.
    ///
    /// # Cancel safety
    /// If you drop the future, the lease may or may not have been renewed; it counts as not renewed here.
    pub async fn renew(&self) -> Result<Duration, RenewError> {
        let state = &self.holding.state;
        let lost = |loss| RenewError::Lost(self.lost_by(loss));
        let deadline = state.deadline().map_err(lost)?;
        if state.is_last(deadline) {
            return Ok(self.valid_for());
        }
        let holding = Arc::clone(&self.holding);
        let renewed = in_runtime(&self.runtime, async move { holding.renew().await }).await;
        state.deadline().map_err(lost)?;
        let causes = match renewed {
            Ok(Ok(())) => return Ok(self.valid_for()),
            Ok(Err(causes)) => causes,
            Err(cause) => vec![cause],
        };
        let Sequencer { resource, token } = self.holding.first.clone();
        Err(RenewError::Failed { resource, token, causes })
    }

    /// Releases the lease. The lock stays held for the rest of `lock_at_least_for`, if any. If the lease was lost here, and
    /// has a [ticket](Lease::ticket), the lock stays as it is: another process may have renewed it.
    ///
    /// # Errors
    /// [`ReleaseError`] if too few nodes answered to know if it was released. It expires with its TTL at the latest.
    ///
    /// # Cancel safety
    /// After the first poll, the release completes even if you drop the future.
    pub async fn release(mut self) -> Result<Released, ReleaseError> {
        let loss = self.close();
        let released = {
            let outside = Handle::try_current().is_err();
            let _entered = outside.then(|| self.runtime.enter());
            self.holding.release(loss)
        };
        match in_runtime(&self.runtime, released).await.unwrap_or_else(|cause| Err(vec![cause])) {
            Ok(true) if loss == Loss::Released => Ok(Released::Released),
            Err(causes) if loss == Loss::Released => Err(ReleaseError { causes }),
            _ => Ok(Released::Lapsed),
        }
    }

    fn lost_by(&self, loss: Loss) -> LeaseLost {
        let Sequencer { resource, token } = self.holding.first.clone();
        LeaseLost { resource, token, loss, causes: self.renewal_failure() }
    }

    /// Ends the lease here, and returns why. Then nothing is renewed: a renewal after the release could lock again.
    fn close(&mut self) -> Loss {
        self.active = None;
        self.holding.state.close(Loss::Released)
    }
}

impl<K: OfOne> HeldToken for Lease<K> {
    fn held(&self) -> Option<Sequencer> {
        self.holding.state.deadline().is_ok().then(|| self.sequencer())
    }
}

impl<K> Drop for Lease<K> {
    fn drop(&mut self) {
        if self.active.is_some() {
            let _entered = Handle::try_current().is_err().then(|| self.runtime.enter());
            let loss = self.close();
            self.holding.abandon(loss);
        }
    }
}
