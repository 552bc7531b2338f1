use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;

use super::nodes::{Calls, Nodes};
use crate::lock::held_lock::{HeldLock, Renewed};
use crate::lock::{ReleaseError, Released};
use crate::protocol::{Attempt, Release, ReleaseOutcome, Renew, RenewOutcome, Request};
use crate::token::Token;

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

    fn close(&self, rest: Duration) -> Calls {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        let (resource, owner) = (self.attempt.resource.clone(), self.attempt.owner);
        self.nodes.submit_all(&Request::release(resource, owner, rest))
    }
}

impl HeldLock for HeldOnNodes {
    fn renew(&self) -> BoxFuture<'_, Renewed> {
        Box::pin(async {
            let (nodes, now) = (self.nodes.size(), self.nodes.clock().now());
            let mut renew = Renew::new(nodes, self.attempt.clone(), self.token, now);
            let mut calls = {
                let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
                if *closed {
                    return Renewed::Failed(Vec::new());
                }
                self.nodes.submit_all(&renew.request())
            };
            loop {
                match renew.outcome(self.nodes.clock().now()) {
                    Some(RenewOutcome::Renewed { deadline }) => return Renewed::Until(deadline),
                    Some(RenewOutcome::Superseded) => return Renewed::Superseded,
                    Some(RenewOutcome::Failed(faults)) => {
                        return Renewed::Failed(self.nodes.causes(faults));
                    }
                    None => {}
                }
                match calls.next().await {
                    Some((node, reply)) => renew.on_reply(node, reply),
                    None => return Renewed::Failed(Vec::new()),
                }
            }
        })
    }

    fn release(&self, rest: Duration) -> BoxFuture<'_, Result<Released, ReleaseError>> {
        let mut release = Release::new(self.nodes.size());
        // Submitted here and now: dropping the future takes nothing back.
        let mut calls = self.close(rest);
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
                match calls.next().await {
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
        if lost && !self.attempt.terms.lock_delay.is_zero() {
            *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
            return;
        }
        drop(self.close(rest));
    }
}
