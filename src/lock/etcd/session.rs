use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use fencing_protocol::{Fault, Owner, Resource, Terms};
use parking_lot::Mutex;
use scopeguard::{ScopeGuard, guard};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::claim::{EtcdClaim, EtcdRefusal};
use super::client::Repeat;
use super::cluster::Cluster;
use super::fault::EtcdFailure;
use super::messages::{Compare, Op, Range, Txn, TxnAnswer};
use crate::lock::error::Loss;
use crate::lock::lease::state::LeaseState;
use crate::time::Time;

pub(super) const MIN_SECONDS: u64 = 2;

/// An etcd lease with its locks, for one TTL and one runtime. Its sentinel is a key that lasts as long: if that is
/// gone, or was created at another revision, the session and all of its leases are over, and nothing revives it.
pub struct EtcdSession {
    pub(super) cluster: Arc<Cluster>,
    pub(super) ttl: Duration,
    pub(super) budget: Duration,
    pub(super) lease: i64,
    /// The revision at which the sentinel was created, which identifies the session.
    pub(super) created: i64,
    /// The latest known revision of the sentinel. Each sweep changes it.
    pub(super) modified: AtomicI64,
    pub(super) state: Mutex<State>,
    /// Wakes the task of the session.
    pub(super) work: Arc<Notify>,
    /// A sweep has succeeded, or the session is over.
    pub(super) swept: Notify,
    pub(super) runtime: Handle,
    /// They end with it.
    pub(super) tasks: OnceLock<[AbortOnDropHandle<()>; 2]>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) over: bool,
    /// The start of the last renewal that succeeded.
    pub(super) renewed: Time,
    pub(super) used: Time,
    pub(super) held: HashMap<u128, HeldClaim>,
    /// Attempts in doubt: their requests may have taken effect, or may still do so. The next sweep deletes their locks.
    pub(super) doubtful: Vec<Doubtful>,
    pub(super) renewals: Vec<EtcdRenewal>,
}

/// A claim in doubt, which counts as outstanding.
pub(super) type Doubtful = (Arc<EtcdClaim>, TaskTrackerToken);

pub(super) struct HeldClaim {
    pub(super) claim: Arc<EtcdClaim>,
    /// The end of the lease and its lock-delay, or of the time that its locks stay closed after the release.
    pub(super) until: Time,
    pub(super) lease: Weak<LeaseState>,
}

pub(super) struct EtcdRenewal {
    pub(super) claim: Arc<EtcdClaim>,
    /// Takes the start of the renewal. `None`: a lock is gone, or the session is over.
    pub(super) answer: oneshot::Sender<Result<Option<Time>, Fault>>,
}

impl EtcdSession {
    /// Returns when the etcd lease may end, not counting the lock-delay.
    pub(super) fn expires(&self, renewed: Time) -> Time {
        renewed + self.ttl * 4 / 3
    }

    /// Returns the end of a lease that was asked for at `start`: it is not longer than the etcd lease.
    pub(super) fn deadline(&self, terms: &Terms, start: Time) -> Time {
        terms.deadline(start.min(self.state.lock().renewed + self.ttl / 3))
    }

    /// Changes what is noted of a lease. Returns false if nothing is: if the session is over, so is the lease.
    pub(super) fn note(&self, owner: Owner, change: impl FnOnce(&mut HeldClaim)) -> bool {
        self.state.lock().held.get_mut(&owner.0).map(change).is_some()
    }

    /// Deletes, at the time `until`, the locks of a released lease and those `kept` in their place.
    pub(super) fn keep_until(&self, until: Time, released: &Arc<EtcdClaim>, kept: &Arc<EtcdClaim>) {
        let mut state = self.state.lock();
        state.hold(released, until);
        state.hold(kept, until);
        self.work.notify_one();
    }

    /// Returns for how long a lock of this session is held, if it has one.
    pub(super) fn held_for(&self, resource: &Resource) -> Option<Duration> {
        let (now, state) = (self.cluster.clock.now(), self.state.lock());
        let held = state.held.values().filter(|held| held.until > now && held.claim.concerns(resource));
        held.map(|held| held.until.since(now)).max()
    }

    /// Has the next round renew a lease. Returns nothing if the session is over.
    pub(super) fn renew(&self, claim: &Arc<EtcdClaim>) -> Option<oneshot::Receiver<Result<Option<Time>, Fault>>> {
        let (answer, answered) = oneshot::channel();
        let mut state = self.state.lock();
        if state.over || !state.held.contains_key(&claim.owner.0) {
            return None;
        }
        state.renewals.push(EtcdRenewal { claim: Arc::clone(claim), answer });
        self.work.notify_one();
        Some(answered)
    }

    /// Sends a transaction that takes effect only if the sentinel has its known revision. A sweep changes the revision,
    /// so that no earlier transaction takes effect after a sweep. The first answer of a refused transaction is the
    /// sentinel. Closing the service deletes every sentinel: then this ends the session.
    pub(super) async fn guarded(&self, mut txn: Txn, budget: Duration) -> Result<TxnAnswer, EtcdRefusal> {
        let (sentinel, modified) = (self.cluster.keys.sentinel(self.lease), self.modified.load(Ordering::Acquire));
        txn.compare.push(Compare::modified(sentinel.clone(), modified));
        txn.failure.insert(0, Op::range(Range::one(sentinel)));
        let answer = match self.cluster.client.call(&txn, budget, Repeat::Never).await {
            Ok((answer, _)) if answer.succeeded => return Ok(answer),
            Ok((answer, _)) => answer,
            Err(EtcdFailure { fault: Fault::Refused(text), .. }) if text.contains("lease not found") => {
                TxnAnswer::default()
            }
            Err(failure) => return Err(EtcdRefusal::Failed(failure)),
        };
        // An older revision means that the cluster was restored from a backup.
        match answer.read(0).first() {
            Some(found) if found.created == self.created && found.modified >= modified => {
                self.modified.fetch_max(found.modified, Ordering::AcqRel);
                if found.modified > modified { Err(EtcdRefusal::Moved) } else { Ok(answer) }
            }
            _ => {
                self.end();
                Err(EtcdRefusal::Over)
            }
        }
    }

    /// Ends the session, because its etcd lease is gone: all of its leases are lost.
    pub(super) fn end(&self) {
        let ended = std::mem::replace(&mut *self.state.lock(), State { over: true, ..State::default() });
        for lease in ended.held.into_values().filter_map(|held| held.lease.upgrade()) {
            lease.close(Loss::Expired);
        }
        for renewal in ended.renewals {
            let _ = renewal.answer.send(Ok(None));
        }
        self.swept.notify_waiters();
        self.work.notify_one();
    }

    /// Keeps others from joining the shared lock for `lasting` while it is held, in a separate task. The grant ends
    /// this early, or, if this process dies, its etcd lease (whole seconds). If the drain fails, the waiter asks again.
    pub(super) fn drain(&self, resource: &Resource, lasting: Duration) {
        if lasting.is_zero() {
            return;
        }
        let (cluster, runtime, budget) = (Arc::clone(&self.cluster), self.runtime.clone(), self.budget);
        let (drain, parts) = (cluster.keys.drain(resource), cluster.keys.parts(resource));
        let counted = cluster.requests.token();
        self.runtime.spawn(async move {
            let lease = cluster.grant(seconds(lasting), budget).await?;
            let put = Txn::only_if(Compare::some_in(parts), Op::put(drain, Vec::new(), lease));
            if cluster.client.call(&put, budget, Repeat::Never).await.is_ok_and(|(answer, _)| answer.succeeded) {
                drop(counted);
                sleep(lasting).await;
            }
            // This ends only this drain: the key of a later drain is on another etcd lease.
            cluster.revoke(&runtime, lease, budget);
            Ok::<(), Fault>(())
        });
    }

    /// Waits until nothing of these resources is in doubt here, not for longer than that.
    pub(super) async fn clear(&self, claim: &EtcdClaim, end: Instant) {
        loop {
            let mut swept = std::pin::pin!(self.swept.notified());
            swept.as_mut().enable();
            let concerns = |it: &EtcdClaim| it.locks.iter().any(|(it, _)| claim.concerns(it));
            if !self.state.lock().doubtful.iter().any(|(it, _)| concerns(it)) || timeout_at(end, swept).await.is_err() {
                return;
            }
        }
    }
}

impl State {
    /// Notes a lease's locks until it ends with its lock-delay. False if the session is over, or about to sweep them.
    pub(super) fn hold(&mut self, claim: &Arc<EtcdClaim>, until: Time) -> bool {
        if self.over || self.doubtful.iter().any(|(doubtful, _)| doubtful.owner == claim.owner) {
            return false;
        }
        let new = || HeldClaim { claim: Arc::clone(claim), until, lease: Weak::new() };
        let held = self.held.entry(claim.owner.0).or_insert_with(new);
        held.until = held.until.max(until);
        true
    }
}

/// Guards the locks of a claim whose request has no known outcome: they may be held now, or later. If this is dropped
/// before it is [`decided`], the session sweeps them.
pub(super) type InDoubt = ScopeGuard<(Arc<EtcdSession>, Doubtful), fn((Arc<EtcdSession>, Doubtful))>;

/// Puts the locks of a claim in doubt. The caller sends its request only after this.
pub(super) fn in_doubt(session: &Arc<EtcdSession>, claim: &Arc<EtcdClaim>) -> InDoubt {
    let doubt = (Arc::clone(claim), session.cluster.requests.token());
    guard((Arc::clone(session), doubt), |(session, doubt)| {
        let mut state = session.state.lock();
        if !state.over {
            state.doubtful.push(doubt);
            session.work.notify_one();
        }
    })
}

/// Ends the doubt: the session has nothing to sweep.
pub(super) fn decided(doubt: InDoubt) {
    drop(ScopeGuard::into_inner(doubt));
}

/// When the service and its leases are gone, the locks are deleted, unless one must stay closed.
impl Drop for EtcdSession {
    fn drop(&mut self) {
        let now = self.cluster.clock.now();
        let state = self.state.get_mut();
        if !state.over && !state.held.values().any(|held| held.until > now) {
            self.cluster.revoke(&self.runtime, self.lease, self.budget);
        }
    }
}

/// Returns the seconds of an etcd lease that lasts for this long at least.
pub(super) fn seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(MIN_SECONDS)
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;

    #[test]
    fn what_is_about_to_be_swept_is_not_held_again() {
        let claim = Arc::new(EtcdClaim::waiting(&Resource::new("a").unwrap(), Vec::new()));
        let (mut state, until) = (State::default(), Time::default());
        assert!(state.hold(&claim, until));
        state.doubtful.push((Arc::clone(&claim), TaskTracker::new().token()));
        assert!(!state.hold(&claim, until));
    }
}
