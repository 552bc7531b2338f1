use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Released, Renewed, Terms};
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep};

use super::claim::{EtcdClaim, EtcdRefusal};
use super::client::Repeat;
use super::messages::Range;
use super::session::{EtcdSession, decided, in_doubt, seconds};
use crate::lock::error::Loss;
use crate::lock::lease::state::LeaseState;
use crate::lock::service::backend::{HeldLock, NodeCause, ReleaseError, SentRelease};
use crate::lock::sleep::answered;

/// The pause before the next try to move a lock to this session.
const PAUSE: Duration = Duration::from_millis(50);

/// The locks of one lease, on the etcd lease of its session.
pub(super) struct HeldInEtcd {
    pub(super) session: Arc<EtcdSession>,
    pub(super) claim: Arc<EtcdClaim>,
    pub(super) terms: Terms,
}

impl HeldLock for HeldInEtcd {
    fn renew(&self, resumes: bool) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>> {
        Box::pin(async move {
            let renewed = match resumes {
                true => self.session.take_over(&self.claim, &self.terms).await,
                false => self.renew_here().await,
            };
            renewed.map_err(|fault| vec![self.session.cluster.cause(fault)])
        })
    }

    fn ticket_owner(&self) -> Option<String> {
        Some(String::from_utf8_lossy(&self.claim.value).into_owned())
    }

    /// Where the answer is lost, or this is dropped, the next sweep releases.
    fn release(self: Arc<Self>, rest: Duration, _: bool) -> SentRelease {
        if self.session.state.lock().held.remove(&self.claim.owner.0).is_none() {
            return Box::pin(async { Ok(Released::Lapsed) });
        }
        let held = Arc::clone(&self);
        let left = if rest.is_zero() { held.release_now() } else { held.release_after(rest) };
        Box::pin(async move {
            match left.await {
                Ok(true) => Ok(Released::Released),
                Ok(false) => Ok(Released::Lapsed),
                Err(fault) => Err(ReleaseError { causes: vec![self.session.cluster.cause(fault)] }),
            }
        })
    }

    /// The caller's clock is asked without a lock.
    fn watched(&self, state: &Arc<LeaseState>) {
        if !self.session.note(self.claim.owner, |held| held.lease = Arc::downgrade(state)) {
            state.close(Loss::Expired);
        }
    }
}

impl HeldInEtcd {
    async fn renew_here(&self) -> Result<Renewed, Fault> {
        let Some(answer) = self.session.renew(&self.claim) else { return Ok(Renewed::Superseded) };
        // A later answer is useless: the lease has ended by then.
        let start = answered(Instant::now() + self.terms.ttl, answer).await?;
        let Some(deadline) = start.map(|start| self.terms.deadline(start)) else { return Ok(Renewed::Superseded) };
        let until = deadline + self.terms.lock_delay;
        self.session.note(self.claim.owner, |held| held.until = held.until.max(until));
        Ok(Renewed::Until(deadline))
    }

    /// Deletes the locks. Returns whether all were still there.
    fn release_now(self: Arc<Self>) -> BoxFuture<'static, Result<bool, Fault>> {
        let doubt = in_doubt(&self.session, &self.claim);
        Box::pin(async move {
            let EtcdSession { cluster, budget, .. } = &*self.session;
            let (answer, _) = cluster.client.call(&self.claim.release(&cluster.keys), *budget, Repeat::Never).await?;
            // Where one of several is gone, the sweep deletes the others.
            if answer.succeeded {
                decided(doubt);
            }
            Ok(answer.succeeded)
        })
    }

    /// Keeps the locks closed for `rest`, under a new owner and on an etcd lease of their own. If this process dies,
    /// that etcd lease deletes them. Otherwise the session does, to the millisecond, even if no answer comes.
    fn release_after(self: Arc<Self>, rest: Duration) -> BoxFuture<'static, Result<bool, Fault>> {
        let (cluster, budget) = (Arc::clone(&self.session.cluster), self.session.budget);
        let kept = Arc::new(self.claim.kept(rest));
        self.session.keep_until(cluster.clock.now() + rest, &self.claim, &kept);
        let (counted, runtime) = (cluster.requests.token(), self.session.runtime.clone());
        let put = runtime.spawn(async move {
            let lease = cluster.grant(seconds(rest), budget).await?;
            // Never repeated: a second request would find the locks under another owner.
            let (put, _) = cluster.client.call(&self.claim.keep_closed(&kept, lease), budget, Repeat::Never).await?;
            if !put.succeeded {
                cluster.revoke(&self.session.runtime, lease, budget);
            }
            drop(counted);
            Ok(put.succeeded)
        });
        Box::pin(answered(Instant::now() + budget * 2, put))
    }
}

impl EtcdSession {
    /// Moves the lock of a lease that several processes have to this session, if it is still its owner's. Each renewal
    /// does so. A late move changes nothing if another process has moved the lock before, or this session has swept it.
    async fn take_over(self: &Arc<Self>, claim: &Arc<EtcdClaim>, terms: &Terms) -> Result<Renewed, Fault> {
        let (cluster, end) = (&self.cluster, Instant::now() + self.budget);
        let (_, key) = claim.locks.first();
        while Instant::now() < end && !self.has_ended() {
            let read = cluster.client.ask(&Range::one(key.clone()), self.budget).await?.kvs;
            let Some(lock) = read.first().filter(|_| claim.is_in(&read)) else {
                return Ok(Renewed::Superseded);
            };
            // After the read: a process that has moved it before must not count on it for longer than this session does.
            let start = cluster.clock.now();
            let deadline = self.deadline(terms, start);
            if deadline < terms.deadline(start) {
                // The session must be renewed first, or the lock may end before the other process's deadline.
                self.work.notify_one();
                sleep(PAUSE).await;
                continue;
            }
            // Even if the answer is lost, the session deletes the lock then, unless another process has moved it.
            if !self.state.lock().hold(claim, Some(self.lease), deadline + terms.lock_delay) {
                break;
            }
            match self.guarded(claim.move_to(self.lease, lock), self.budget).await {
                Ok(answer) if answer.succeeded => return Ok(Renewed::Until(deadline)),
                // Another process has renewed it, or released it.
                Ok(_) | Err(EtcdRefusal::Moved) => {}
                Err(refusal) => return Err(refusal.into()),
            }
        }
        Err(Fault::TimedOut)
    }
}
