use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, NonEmpty, Released, Renewed, Terms};
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::claim::{EtcdClaim, EtcdRefusal, moved};
use super::client::Repeat;
use super::doubt::InDoubt;
use super::messages::Range;
use super::session::{EtcdSession, seconds};
use crate::lock::error::{NodeCause, ReleaseError};
use crate::lock::lease::held_lock::{HeldLock, SentRelease};
use crate::lock::lease::state::LeaseState;
use crate::lock::lease::ticket::LeaseTicket;
use crate::lock::sleep::answered;
use crate::sequencer::Sequencer;

/// The locks of one lease, on the etcd lease of its session.
pub(super) struct HeldInEtcd {
    pub(super) session: Arc<EtcdSession>,
    pub(super) claim: Arc<EtcdClaim>,
    pub(super) locks: NonEmpty<Sequencer>,
    pub(super) terms: Terms,
}

impl HeldLock for HeldInEtcd {
    fn renew(&self) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>> {
        Box::pin(async {
            let Some(answer) = self.session.renew(&self.claim) else {
                return Ok(Renewed::Superseded);
            };
            // An answer that is later helps nobody.
            match answered(Instant::now() + self.terms.ttl, answer).await {
                Ok(Some(start)) => {
                    let deadline = self.terms.deadline(start);
                    self.session.hold_until(self.claim.owner, deadline + self.terms.lock_delay);
                    Ok(Renewed::Until(deadline))
                }
                Ok(None) => Ok(Renewed::Superseded),
                Err(fault) => Err(vec![self.session.cluster.cause(fault)]),
            }
        })
    }

    fn resume(&self) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>> {
        Box::pin(async {
            let moved = self.session.take_over(&self.claim, &self.terms).await;
            moved.map_err(|fault| vec![self.session.cluster.cause(fault)])
        })
    }

    fn ticket(&self) -> Option<LeaseTicket> {
        Some(self.claim.ticket(self.locks.first().clone(), self.terms.ttl))
    }

    /// Where the answer is lost, or this is dropped, the next sweep releases.
    fn release(self: Arc<Self>, rest: Duration, _: bool) -> SentRelease {
        let HeldInEtcd { session, claim, .. } = &*self;
        if !session.forget(claim.owner) {
            return Box::pin(async { Ok(Released::Lapsed) });
        }
        if !rest.is_zero() {
            return self.release_after(rest);
        }
        let doubt = InDoubt::new(session, claim);
        Box::pin(async move {
            let cluster = &self.session.cluster;
            let release = self.claim.release(&cluster.keys);
            match cluster.client.call(&release, self.session.budget, Repeat::Never).await {
                Ok((answer, _)) if answer.succeeded => {
                    doubt.decided();
                    Ok(Released::Released)
                }
                // One of several is gone: the sweep deletes the others.
                Ok(_) => Ok(Released::Lapsed),
                Err(failure) => Err(ReleaseError { causes: vec![cluster.cause(failure.fault)] }),
            }
        })
    }

    fn releases_in_order(&self) -> bool {
        false
    }

    fn watched(&self, state: &Arc<LeaseState>) {
        self.session.watched(self.claim.owner, state);
    }
}

impl HeldInEtcd {
    /// Keeps the locks closed for this long: on an etcd lease of their own, which also ends if this process does. The
    /// session deletes them in time, as an etcd lease has whole seconds.
    fn release_after(self: Arc<Self>, rest: Duration) -> SentRelease {
        let (cluster, budget) = (Arc::clone(&self.session.cluster), self.session.budget);
        self.session.close(cluster.clock.now() + rest, &self.claim);
        let (counted, held) = (cluster.requests.token(), Arc::clone(&self));
        let put = self.session.runtime.spawn(async move {
            let lease = cluster.grant(seconds(rest), budget).await?;
            let put = cluster.client.ask(&held.claim.keep_closed(lease), budget).await?;
            if !put.succeeded {
                cluster.revoke(&held.session.runtime, lease, budget);
            }
            drop(counted);
            Ok(put.succeeded)
        });
        Box::pin(async move {
            match answered(Instant::now() + budget * 2, put).await {
                Ok(true) => Ok(Released::Released),
                Ok(false) => Ok(Released::Lapsed),
                Err(fault) => Err(ReleaseError { causes: vec![self.session.cluster.cause(fault)] }),
            }
        })
    }
}

impl EtcdSession {
    /// Moves the lock of a lease that several processes have to this session, if it is still that of its owner. Each
    /// renewal does so. A move that comes late changes nothing if another process has moved the lock before it, or this
    /// session has swept it.
    async fn take_over(self: &Arc<Self>, claim: &Arc<EtcdClaim>, terms: &Terms) -> Result<Renewed, Fault> {
        let (cluster, end) = (&self.cluster, Instant::now() + self.budget);
        let (_, key) = claim.locks.first();
        while Instant::now() < end {
            let read = cluster.client.ask(&Range::one(key.clone()), self.budget).await?.kvs;
            let Some(lock) = read.first().filter(|_| claim.is_in(&read)) else {
                return Ok(Renewed::Superseded);
            };
            // After the read: a process that has moved it before must not count on it for longer than this session does.
            let start = cluster.clock.now();
            let deadline = self.deadline(terms, start);
            // Even if the answer is lost, the session deletes the lock then, unless another process has moved it.
            if !self.hold(claim, deadline + terms.lock_delay) {
                break;
            }
            let modified = self.modified();
            let put = claim.move_to(&cluster.keys, self.lease, modified, lock);
            let answer = match cluster.client.call(&put, self.budget, Repeat::Never).await {
                Ok((answer, _)) => answer,
                Err(failure) if failure.is_lease_gone() => return Err(self.ended()),
                Err(failure) => return Err(failure.fault),
            };
            if answer.succeeded {
                return Ok(Renewed::Until(deadline));
            }
            match moved(&answer, self.created, modified) {
                Err(EtcdRefusal::Moved(revision)) => self.note_modified(revision),
                Err(EtcdRefusal::Over) => return Err(self.ended()),
                // Another process has renewed it, or released it.
                _ => {}
            }
        }
        Err(Fault::TimedOut)
    }

    fn ended(&self) -> Fault {
        self.end();
        Fault::Disconnected("its session has ended".into())
    }
}
