use std::iter::from_fn;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Attempt, Machine, NonEmpty, Release, Renew, Renewed, Request, Resource, Token};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::nodes::Nodes;
use crate::lock::error::{NodeCause, ReleaseError};
use crate::lock::lease::held_lock::{HeldLock, SentRelease};
use crate::lock::lease::ticket::LeaseTicket;
use crate::sequencer::Sequencer;

/// Locks of one lease that are held on the nodes.
pub(super) struct HeldOnNodes {
    nodes: Arc<Nodes>,
    attempt: Attempt,
    locks: NonEmpty<(Resource, Token)>,
    /// Set before the release is submitted: a renewal after it could lock again.
    closed: Mutex<bool>,
}

impl HeldOnNodes {
    pub(super) fn new(nodes: Arc<Nodes>, attempt: Attempt, locks: NonEmpty<(Resource, Token)>) -> HeldOnNodes {
        HeldOnNodes { nodes, attempt, locks, closed: Mutex::new(false) }
    }
}

impl HeldLock for HeldOnNodes {
    fn renew(&self) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>> {
        Box::pin(async {
            let now = self.nodes.clock.now();
            let mut renew = Renew::new(self.nodes.size(), self.attempt, &self.locks, now);
            // The clock that it reads may release this lease: not under the lock.
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

    /// Sets the lock nowhere again: another process may be releasing it, and this node may be the first that it reached.
    fn resume(&self) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>> {
        Box::pin(async {
            let (nodes, now) = (&self.nodes, self.nodes.clock.now());
            let mut resume = Renew::resuming(nodes.size(), self.attempt, &self.locks, now);
            let answers = nodes.begin(&mut resume);
            let renewed = nodes.drive(&mut resume, answers).await.unwrap_or(Err(Vec::new()));
            renewed.map_err(|faults| nodes.causes(faults))
        })
    }

    fn ticket(&self) -> Option<LeaseTicket> {
        let (resource, token) = self.locks.first().clone();
        let Attempt { owner, terms, .. } = self.attempt;
        Some(LeaseTicket { sequencer: Sequencer::new(resource, token), ttl: terms.ttl, owner: owner.to_string() })
    }

    fn release(self: Arc<Self>, rest: Duration, handed_over: bool) -> SentRelease {
        *self.closed.lock() = true;
        let owner = self.attempt.owner;
        // A lock that is shortened to nothing is gone, and no node notifies of it.
        let request = |resource| match rest.is_zero() && !handed_over {
            true => Request::Release { resource, owner },
            false => Request::Shorten { resource, owner, rest },
        };
        let resources = self.locks.iter().map(|(resource, _)| resource.clone());
        let request = Request::together(resources.map(request).collect());
        let mut release = Release::new(self.nodes.size(), request);
        let answers = self.nodes.begin(&mut release);
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
