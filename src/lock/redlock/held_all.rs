use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencing_protocol::{Attempt, ReleaseAll, RenewAll, RenewOutcome, Request, Token};
use futures_util::future::BoxFuture;

use super::answers::Answers;
use super::nodes::Nodes;
use crate::lock::held_lock::{HeldLock, Renewed};
use crate::lock::{ReleaseError, Released};

/// Several locks that are asked for, or held, on the nodes. Dropped before it was closed, it releases
/// all of them everywhere: also where no answer came.
pub(super) struct HeldAllOnNodes {
    nodes: Arc<Nodes>,
    attempts: Vec<Attempt>,
    held: Vec<(Attempt, Token)>,
    /// Set before the release is submitted: a renewal after it could lock again.
    closed: Mutex<bool>,
}

impl HeldAllOnNodes {
    /// Takes what is about to be asked for.
    pub(super) fn new(nodes: Arc<Nodes>, attempts: Vec<Attempt>) -> HeldAllOnNodes {
        HeldAllOnNodes { nodes, attempts, held: Vec::new(), closed: Mutex::new(false) }
    }

    /// Notes the tokens that were won.
    pub(super) fn with(mut self, tokens: &[Token]) -> HeldAllOnNodes {
        self.held = self.attempts.iter().cloned().zip(tokens.iter().copied()).collect();
        self
    }

    fn close(&self, rest: Duration) -> Answers {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        let release =
            |attempt: &Attempt| Request::release(attempt.resource.clone(), attempt.owner, rest);
        let releases = self.attempts.iter().map(release).collect();
        self.nodes.submit_all(&Request::Several(releases))
    }
}

impl Drop for HeldAllOnNodes {
    fn drop(&mut self) {
        if !*self.closed.lock().unwrap_or_else(PoisonError::into_inner) {
            drop(self.close(Duration::ZERO));
        }
    }
}

impl HeldLock for HeldAllOnNodes {
    fn renew(&self) -> BoxFuture<'_, Renewed> {
        Box::pin(async {
            let (nodes, now) = (self.nodes.size(), self.nodes.clock().now());
            let mut renew = RenewAll::new(nodes, &self.held, now);
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
        let mut release = ReleaseAll::new(self.nodes.size(), self.attempts.len());
        // Submitted here and now: dropping the future takes nothing back.
        let mut answers = self.close(rest);
        Box::pin(async move {
            loop {
                if let Some(outcome) = release.outcome() {
                    return self.nodes.released(outcome);
                }
                match answers.next().await {
                    Some((node, reply)) => release.on_reply(node, reply),
                    None => return Err(ReleaseError { causes: Vec::new() }),
                }
            }
        })
    }

    /// Each lane keeps the order.
    fn releases_in_order(&self) -> bool {
        true
    }

    fn abandon(&self, lost: bool, rest: Duration) {
        let delayed = self.attempts.iter().any(|attempt| !attempt.terms.lock_delay.is_zero());
        if lost && delayed {
            *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
            return;
        }
        drop(self.close(rest));
    }
}
