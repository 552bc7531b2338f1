use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Resource, Token};

use super::error::{AcquireError, LeaseLost, ReleaseError, Released, RenewError};
use super::held_lock::{Grant, GrantAll};
use super::lease::Lease;
use super::settings::Settings;
use super::standing::Loss;
use super::wait::queues::WaitQueues;
use super::watchdog::Watchdogs;
use crate::sequencer::Sequencer;
use crate::time::{Clock, Time};

/// A lease of several resources, from [`acquire_all`](super::Lock::acquire_all): with a token for each.
/// All of it ends at one time.
///
/// It is renewed, lost and released as a whole, as a [`Lease`] is. Errors name the first of the
/// resources. When you drop it, it sends the release and does not wait for an answer.
///
/// **Fencing.** Give each write the token of the resource that it is about.
#[must_use = "a lease that is dropped is released"]
pub struct LeaseSet {
    lease: Lease,
    sequencers: Box<[Sequencer]>,
    waiters: Waiters,
}

impl fmt::Debug for LeaseSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseSet")
            .field("sequencers", &self.sequencers)
            .field("valid_for", &self.valid_for())
            .finish_non_exhaustive()
    }
}

impl LeaseSet {
    /// Takes what was granted for these resources, with the tokens in the same order.
    pub(super) fn new(
        resources: &[Resource],
        grant: GrantAll,
        clock: Arc<dyn Clock>,
        settings: (Time, &Settings),
        queues: &Arc<WaitQueues>,
        watchdogs: &Watchdogs,
    ) -> Result<LeaseSet, AcquireError> {
        let pairs = resources.iter().cloned().zip(grant.tokens);
        let mut sequencers: Vec<_> = pairs.map(|(of, token)| Sequencer::new(of, token)).collect();
        sequencers.sort_unstable_by(|one, other| one.resource.cmp(&other.resource));
        let Some(first) = sequencers.first() else {
            return Err(AcquireError::of_count(0));
        };
        let one = Grant { token: first.token, deadline: grant.deadline, held: grant.held };
        let (resource, own) = (first.resource.clone(), Arc::clone(queues));
        let lease = Lease::new(resource, one, clock, settings, own, watchdogs);
        let waiters = Waiters { queues: Arc::clone(queues), resources: resources.into() };
        Ok(LeaseSet { lease, sequencers: sequencers.into(), waiters })
    }

    /// Returns the fencing token of a resource; `None` if the lease is not about it.
    #[must_use]
    pub fn token_of(&self, resource: &Resource) -> Option<Token> {
        let place = self.sequencers.binary_search_by(|pair| pair.resource.cmp(resource)).ok()?;
        self.sequencers.get(place).map(|pair| pair.token)
    }

    /// Returns each resource with its token, in the order of their names.
    #[must_use]
    pub fn sequencers(&self) -> &[Sequencer] {
        &self.sequencers
    }

    /// Returns how long the lease lasts from now unless it is renewed; zero when it is over.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.lease.valid_for()
    }

    /// Waits until the lease is over, and returns why. It is over for all resources when it is for one.
    ///
    /// # Cancel safety
    /// You may await any number of these, and drop them.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        self.lease.lost()
    }

    /// Runs `work` and drops it the moment the lease is lost.
    ///
    /// # Errors
    /// [`LeaseLost`] if the lease was over first. The work may have been done in part.
    ///
    /// # Cancel safety
    /// If you drop the future, it drops the work. The lease stays.
    ///
    /// **Fencing.** A request that the work has already sent may still arrive: give it the token of
    /// its resource.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LeaseLost> {
        self.lease.run(work).await
    }

    /// Renews the lease once, now, as [`Lease::renew`] does.
    ///
    /// # Errors
    /// [`RenewError`]. If one of the locks was not renewed, the lease was not.
    ///
    /// # Cancel safety
    /// As for [`Lease::renew`].
    pub async fn renew(&self) -> Result<Duration, RenewError> {
        self.lease.renew().await
    }

    /// Releases all of the locks.
    ///
    /// # Errors
    /// [`ReleaseError`] if too few nodes answered to know whether they are released; the locks are
    /// gone by the end of their TTL.
    ///
    /// # Cancel safety
    /// Once you have polled the future, the release is sent and goes on without it.
    pub async fn release(self) -> Result<Released, ReleaseError> {
        let LeaseSet { lease, waiters, .. } = self;
        let released = lease.release().await;
        drop(waiters);
        released
    }
}

/// Those in this process who wait for the resources. It wakes them when it is dropped.
struct Waiters {
    queues: Arc<WaitQueues>,
    resources: Box<[Resource]>,
}

impl Drop for Waiters {
    fn drop(&mut self) {
        for resource in &self.resources {
            self.queues.wake(resource, false);
        }
    }
}
