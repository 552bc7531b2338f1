use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencing_protocol::{Attempt, Release, Renew, RenewOutcome, Request, Token};
use futures_util::future::BoxFuture;

use super::answers::Answers;
use super::nodes::Nodes;
use crate::lock::held_lock::{HeldLock, Renewed};
use crate::lock::{ReleaseError, Released};

/// A lock that is held on the nodes.
pub(super) struct HeldOnNodes {
    nodes: Arc<Nodes>,
    attempt: Attempt,
    token: Token,
    /// Set before the release is submitted: a renewal after it could lock again.
    closed: Mutex<bool>,
}

impl HeldOnNodes {
    pub(super) fn new(nodes: Arc<Nodes>, attempt: Attempt, token: Token) -> HeldOnNodes {
        HeldOnNodes { nodes, attempt, token, closed: Mutex::new(false) }
    }

    fn close(&self, rest: Duration) -> Answers {
        let (resource, owner) = (self.attempt.resource.clone(), self.attempt.owner);
        self.submit(&Request::release(resource, owner, rest))
    }

    fn submit(&self, release: &Request) -> Answers {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.nodes.submit_all(release)
    }

    async fn released(&self, mut answers: Answers) -> Result<Released, ReleaseError> {
        let mut release = Release::new(self.nodes.size());
        loop {
            if let Some(outcome) = release.outcome() {
                return self.nodes.released(outcome);
            }
            match answers.next().await {
                Some((node, reply)) => release.on_reply(node, reply),
                None => return Err(ReleaseError { causes: Vec::new() }),
            }
        }
    }
}

impl HeldLock for HeldOnNodes {
    fn renew(&self) -> BoxFuture<'_, Renewed> {
        Box::pin(async {
            let (nodes, now) = (self.nodes.size(), self.nodes.clock().now());
            let mut renew = Renew::new(nodes, self.attempt.clone(), self.token, now);
            let mut answers = Answers::of_votes(nodes, self.nodes.clock());
            {
                let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
                if *closed {
                    return Renewed::Failed(Vec::new());
                }
                self.nodes.submit_to(&renew.request(), &mut answers, |_| true);
            }
            loop {
                match renew.outcome(self.nodes.clock().now()) {
                    Some(RenewOutcome::Renewed { deadline }) => return Renewed::Until(deadline),
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

    fn release(&self, rest: Duration) -> BoxFuture<'_, Result<Released, ReleaseError>> {
        // Submitted here and now: dropping the future takes nothing back.
        Box::pin(self.released(self.close(rest)))
    }

    /// A lock that is shortened to nothing is gone, and no node tells of it.
    fn pass(&self) -> BoxFuture<'_, Result<Released, ReleaseError>> {
        let (resource, owner) = (self.attempt.resource.clone(), self.attempt.owner);
        let shorten = Request::Shorten { resource, owner, rest: Duration::ZERO };
        Box::pin(self.released(self.submit(&shorten)))
    }

    /// Each lane keeps the order.
    fn releases_in_order(&self) -> bool {
        true
    }

    fn abandon(&self, lost: bool, rest: Duration) {
        if lost && !self.attempt.terms.lock_delay.is_zero() {
            *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
            return;
        }
        drop(self.close(rest));
    }
}
