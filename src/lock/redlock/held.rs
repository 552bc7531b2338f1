use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{
    Attempt, NonEmpty, Owner, Release, ReleaseOutcome, Renew, RenewOutcome, Request, Resource,
    Token,
};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::answers::Answers;
use super::nodes::Nodes;
use crate::lock::error::{ReleaseError, Released};
use crate::lock::lease::held_lock::{HeldLock, Renewed, SentRelease};

/// Locks of one lease that are held on the nodes.
pub(super) struct HeldOnNodes {
    nodes: Arc<Nodes>,
    locks: NonEmpty<(Attempt, Token)>,
    /// Set before the release is submitted: a renewal after it could lock again.
    closed: Mutex<bool>,
}

impl HeldOnNodes {
    pub(super) fn new(nodes: Arc<Nodes>, locks: NonEmpty<(Attempt, Token)>) -> HeldOnNodes {
        HeldOnNodes { nodes, locks, closed: Mutex::new(false) }
    }

    /// Renews no more, and sends a request for each lock, here and now.
    fn close(self: Arc<Self>, release: impl Fn(Resource, Owner) -> Request) -> SentRelease {
        *self.closed.lock() = true;
        let request =
            |(attempt, _): &(Attempt, Token)| release(attempt.resource.clone(), attempt.owner);
        let request = Request::together(self.locks.iter().map(request).collect());
        let mut answers = self.nodes.submit_all(&request);
        let mut release = Release::new(self.nodes.size(), self.locks.len());
        Box::pin(async move {
            loop {
                match release.outcome() {
                    Some(ReleaseOutcome::Released) => return Ok(Released::Released),
                    Some(ReleaseOutcome::Lapsed) => return Ok(Released::Lapsed),
                    Some(ReleaseOutcome::InDoubt(faults)) => {
                        return Err(ReleaseError { causes: self.nodes.causes(faults) });
                    }
                    None => {}
                }
                match answers.next().await {
                    Some((node, reply)) => release.on_reply(node, reply),
                    None => return Err(ReleaseError { causes: Vec::new() }),
                }
            }
        })
    }
}

impl HeldLock for HeldOnNodes {
    fn renew(&self) -> BoxFuture<'_, Renewed> {
        Box::pin(async {
            let (nodes, now) = (self.nodes.size(), self.nodes.clock().now());
            let mut renew = Renew::new(nodes, &self.locks, now);
            let mut answers = Answers::of_votes(nodes, self.nodes.clock());
            {
                let closed = self.closed.lock();
                if *closed {
                    return Renewed::Failed(Vec::new());
                }
                self.nodes.submit_to(&renew.request(), &mut answers, |_| true);
            }
            loop {
                match renew.outcome(self.nodes.clock().now()) {
                    Some(RenewOutcome::Renewed(deadline)) => return Renewed::Until(deadline),
                    Some(RenewOutcome::Superseded) => return Renewed::Superseded,
                    Some(RenewOutcome::Failed(faults)) => {
                        return Renewed::Failed(self.nodes.causes(faults));
                    }
                    None => {}
                }
                match answers.next().await {
                    Some((node, reply)) => renew.on_reply(node, reply),
                    None => return Renewed::Failed(Vec::new()),
                }
            }
        })
    }

    fn release(self: Arc<Self>, rest: Duration) -> SentRelease {
        self.close(|resource, owner| Request::release(resource, owner, rest))
    }

    /// A lock that is shortened to nothing is gone, and no node notifies of it.
    fn hand_over(self: Arc<Self>) -> SentRelease {
        let rest = Duration::ZERO;
        self.close(|resource, owner| Request::Shorten { resource, owner, rest })
    }

    /// Each lane keeps the order.
    fn releases_in_order(&self) -> bool {
        true
    }
}
