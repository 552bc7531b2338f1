use std::iter::from_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencing_protocol::{Attempt, Machine, NonEmpty, Release, Renew, Renewed, Request, Resource, Stamp, Token};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::nodes::Nodes;
use crate::lock::service::backend::{HeldLock, NodeCause, ReleaseError, SentRelease};

pub(super) struct HeldOnNodes {
    nodes: Arc<Nodes>,
    attempt: Attempt,
    locks: NonEmpty<(Resource, Token)>,
    /// Set before the release is submitted: a renewal after it could lock again.
    closed: Mutex<bool>,
    /// Whether other processes may renew it.
    has_ticket: AtomicBool,
}

impl HeldOnNodes {
    pub(super) fn new(nodes: Arc<Nodes>, attempt: Attempt, locks: NonEmpty<(Resource, Token)>) -> HeldOnNodes {
        HeldOnNodes { nodes, attempt, locks, closed: Mutex::new(false), has_ticket: AtomicBool::new(false) }
    }

    /// Renews if a majority still has the lock. A node that has lost it gets it again, unless a release has reached it.
    async fn resume(&self) -> Result<Renewed, Vec<NodeCause>> {
        let (nodes, now) = (&self.nodes, self.nodes.clock.now());
        let mut resume = Renew::resuming(nodes.size(), self.attempt, &self.locks, now);
        let answers = nodes.begin(&mut resume);
        let renewed = nodes.drive(&mut resume, answers).await.unwrap_or(Err(Vec::new()));
        let missing: Vec<usize> = resume.missing().collect();
        // At the last count of an era a release leaves no trace on a node: then no missing lock is set again.
        let heals = self.locks.iter().all(|(_, token)| Stamp::from(*token).count < Stamp::MAX_COUNT);
        if matches!(renewed, Ok(Renewed::Until(_))) && heals && !missing.is_empty() {
            let mut renew = Renew::new(nodes.size(), self.attempt, &self.locks, now);
            let requests = from_fn(|| renew.next_request()).filter(|(to, _)| missing.contains(&to.node));
            let mut answers = nodes.answers();
            let closed = self.closed.lock();
            if !*closed {
                nodes.submit(requests, &mut answers, false);
            }
        }
        renewed.map_err(|faults| nodes.causes(faults))
    }
}

impl HeldLock for HeldOnNodes {
    fn renew(&self, resumes: bool) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>> {
        if resumes {
            return Box::pin(self.resume());
        }
        Box::pin(async {
            let now = self.nodes.clock.now();
            let mut renew = Renew::new(self.nodes.size(), self.attempt, &self.locks, now);
            // Before `closed` is locked: this reads the clock, which may be the caller's code and release this lease.
            let mut answers = self.nodes.answers();
            {
                let closed = self.closed.lock();
                if *closed {
                    return Err(Vec::new());
                }
                self.nodes.submit(from_fn(|| renew.next_request()), &mut answers, false);
            }
            let renewed = self.nodes.drive(&mut renew, answers).await;
            renewed.unwrap_or(Err(Vec::new())).map_err(|faults| self.nodes.causes(faults))
        })
    }

    fn ticket_owner(&self) -> Option<String> {
        self.has_ticket.store(true, Ordering::Relaxed);
        Some(self.attempt.owner.to_string())
    }

    fn release(self: Arc<Self>, rest: Duration, handed_over: bool) -> SentRelease {
        *self.closed.lock() = true;
        let (owner, has_ticket) = (self.attempt.owner, self.has_ticket.load(Ordering::Relaxed));
        // A lock that is shortened to nothing is gone, and no node notifies of it.
        let notifies = rest.is_zero() && !handed_over;
        let of_all = |request: &dyn Fn(Resource, Token) -> Request| {
            let requests = self.locks.iter().cloned().map(|(resource, token)| request(resource, token)).collect();
            Release::new(self.nodes.size(), Request::together(requests))
        };
        let retire = |resource, token| Request::Retire { resource, owner, token };
        let mut release = of_all(&|resource, token| match (notifies, has_ticket) {
            (false, _) => Request::Shorten { resource, owner, rest },
            (true, true) => retire(resource, token),
            (true, false) => Request::Release { resource, owner },
        });
        let answers = self.nodes.begin(&mut release);
        if has_ticket && !notifies {
            // A late renewal by ticket would set the lock again on a node that had lost it.
            drop(self.nodes.begin(&mut of_all(&retire)));
        }
        Box::pin(async move {
            let released = self.nodes.drive(&mut release, answers).await;
            let in_doubt = |faults| ReleaseError { causes: self.nodes.causes(faults) };
            released.unwrap_or(Err(Vec::new())).map_err(in_doubt)
        })
    }

    /// Each lane keeps the order.
    fn releases_in_order(&self) -> bool {
        true
    }
}
