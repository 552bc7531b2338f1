use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Released, Renewed, Terms};
use futures_util::future::BoxFuture;

use super::claim::Claim;
use super::client::Repeat;
use super::messages::LeaseGrant;
use super::session::{EtcdSession, InDoubt, revoke, seconds};
use crate::lock::error::{NodeCause, ReleaseError};
use crate::lock::lease::held_lock::{HeldLock, SentRelease};
use crate::lock::lease::state::LeaseState;

/// The locks of one lease, on the etcd lease of its session.
pub(super) struct HeldInEtcd {
    pub(super) session: Arc<EtcdSession>,
    pub(super) claim: Arc<Claim>,
    /// The revision that created the locks.
    pub(super) revision: i64,
    pub(super) terms: Terms,
}

impl HeldLock for HeldInEtcd {
    fn renew(&self) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>> {
        Box::pin(async {
            let Some(answer) = self.session.renew(&self.claim, self.revision) else {
                return Ok(Renewed::Superseded);
            };
            match answer.await {
                Ok(Ok(Some(start))) => {
                    let deadline = self.terms.deadline(start);
                    self.session.hold_until(self.claim.owner, deadline + self.terms.lock_delay);
                    Ok(Renewed::Until(deadline))
                }
                // A lock is gone, or the session is over.
                Ok(Ok(None)) | Err(_) => Ok(Renewed::Superseded),
                Ok(Err(fault)) => Err(vec![self.session.cluster.cause(fault)]),
            }
        })
    }

    /// Where the answer is lost, or this is dropped, the next sweep releases.
    fn release(self: Arc<Self>, rest: Duration, _: bool) -> SentRelease {
        let HeldInEtcd { session, claim, revision, .. } = &*self;
        if !session.forget(claim.owner) {
            return Box::pin(async { Ok(Released::Lapsed) });
        }
        if !rest.is_zero() {
            return self.release_after(rest);
        }
        let (doubt, revision) = (InDoubt::new(session, claim), *revision);
        Box::pin(async move {
            let cluster = &self.session.cluster;
            let release = self.claim.release(&cluster.keys, revision);
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
        let HeldInEtcd { session, claim, revision, .. } = &*self;
        let (cluster, budget, revision) = (Arc::clone(&session.cluster), session.budget, *revision);
        let closing = claim.closing(rest);
        let until = cluster.clock.now() + rest;
        session.close(until, [Arc::clone(claim), Arc::clone(&closing)]);
        let counted = cluster.requests.token();
        let held = Arc::clone(&self);
        let put = self.session.runtime.spawn(async move {
            let (_counted, _held) = (counted, held);
            let seconds = i64::try_from(seconds(rest)).unwrap_or(i64::MAX);
            let lease = cluster.client.ask(&LeaseGrant { seconds }, budget).await;
            let lease = lease.map_err(|failure| failure.fault)?.id;
            let put = closing.keep_closed(revision, lease);
            let put = cluster.client.ask(&put, budget).await.map_err(|failure| failure.fault)?;
            if !put.succeeded {
                revoke(&cluster, lease, budget).await;
            }
            Ok(put.succeeded)
        });
        Box::pin(async move {
            let fault = match put.await {
                Ok(Ok(true)) => return Ok(Released::Released),
                Ok(Ok(false)) => return Ok(Released::Lapsed),
                Ok(Err(fault)) => fault,
                Err(_) => Fault::Disconnected("the runtime is gone".into()),
            };
            Err(ReleaseError { causes: vec![self.session.cluster.cause(fault)] })
        })
    }
}
