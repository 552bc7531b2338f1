//! Renewal and release of the locks that one attempt has acquired: protocol, "Renew, release".

use super::message::{Reply, Request};
use super::round::Round;
use super::{Attempt, Fault, NonEmpty, Time, Token};

/// How a renewal ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RenewOutcome {
    /// For each lock, a majority of all nodes has extended it: when the lease ends now.
    Renewed(Time),
    /// A majority of all nodes says that somebody else has come: it will not get better.
    Superseded,
    /// Not renewed this time. It releases nothing; the lease ends when it would have.
    Failed(Vec<(usize, Fault)>),
}

/// How a release ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReleaseOutcome {
    /// A majority of all nodes held the locks and let them go.
    Released,
    /// So many nodes did not hold one of the locks any more that it had lapsed before.
    Lapsed,
    /// Too few answered to say. The locks are gone by the end of their TTL.
    InDoubt(Vec<(usize, Fault)>),
}

/// One renewal of one lock or several, as a state machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Renew {
    request: Request,
    deadline: Time,
    /// What the nodes answer about each lock.
    locks: Vec<Round>,
}

impl Renew {
    /// Starts a renewal over `nodes` nodes, of the locks that these attempts have acquired.
    pub fn new(nodes: usize, held: &NonEmpty<(Attempt, Token)>, now: Time) -> Renew {
        let renew = |(attempt, token): &(Attempt, Token)| Request::Renew {
            resource: attempt.resource.clone(),
            owner: attempt.owner,
            mode: attempt.mode,
            token: *token,
            ttl: attempt.terms.closed_for(),
        };
        let deadlines = held.iter().map(|(attempt, _)| attempt.terms.deadline(now));
        Renew {
            request: Request::together(held.iter().map(renew).collect()),
            deadline: deadlines.min().unwrap_or_default(),
            locks: vec![Round::new(nodes); held.len()],
        }
    }

    /// What to send to every node.
    pub fn request(&self) -> Request {
        self.request.clone()
    }

    /// Takes what a node answered, or why it did not.
    pub fn on_reply(&mut self, node: usize, reply: Result<Reply, Fault>) {
        take(&mut self.locks, node, reply);
    }

    /// How the renewal ended, as soon as no further reply can change it. The majority is
    /// that of all nodes, not of those once acquired.
    pub fn outcome(&self, now: Time) -> Option<RenewOutcome> {
        let renewed = |reply: &Reply| *reply == Reply::Renewed;
        let superseded = |reply: &Reply| matches!(reply, Reply::Held { .. } | Reply::NotOwner);
        let in_time = now < self.deadline;
        let (mut open, mut failed) = (false, None);
        for lock in &self.locks {
            if lock.count(superseded) >= lock.majority() {
                return Some(RenewOutcome::Superseded);
            }
            if in_time && lock.count(renewed) >= lock.majority() {
                continue;
            }
            if in_time && !lock.is_over() {
                open = true;
            } else if failed.is_none() {
                let mut lock = lock.clone();
                lock.end();
                failed = Some(lock.faults(|reply| renewed(reply) || superseded(reply)));
            }
        }
        let renewed = RenewOutcome::Renewed(self.deadline);
        (!open).then(|| failed.map_or(renewed, RenewOutcome::Failed))
    }
}

/// One release of one lock or several on all nodes, as a state machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Release(Vec<Round>);

impl Release {
    /// Starts a release of `locks` locks over `nodes` nodes, all of which are asked.
    pub fn new(nodes: usize, locks: usize) -> Release {
        Release(vec![Round::new(nodes); locks])
    }

    /// Takes what a node answered, or why it did not.
    pub fn on_reply(&mut self, node: usize, reply: Result<Reply, Fault>) {
        take(&mut self.0, node, reply);
    }

    /// How it ended, once no reply can change that: it lapsed if one lock has, is in doubt if one is.
    pub fn outcome(&self) -> Option<ReleaseOutcome> {
        let released = |reply: &Reply| matches!(reply, Reply::Released | Reply::Passed { .. });
        let lapsed = |reply: &Reply| *reply == Reply::NotOwner;
        let mut outcome = ReleaseOutcome::Released;
        for lock in &self.0 {
            if lock.nodes() - lock.count(lapsed) < lock.majority() {
                outcome = ReleaseOutcome::Lapsed;
            } else if lock.count(released) < lock.majority() {
                if !lock.is_over() {
                    return None;
                }
                if outcome == ReleaseOutcome::Released {
                    let faults = lock.faults(|reply| released(reply) || lapsed(reply));
                    outcome = ReleaseOutcome::InDoubt(faults);
                }
            }
        }
        Some(outcome)
    }
}

fn take(locks: &mut [Round], node: usize, reply: Result<Reply, Fault>) {
    let replies = Reply::apart(reply, locks.len());
    for (lock, reply) in locks.iter_mut().zip(replies) {
        lock.take(lock.number, node, reply);
    }
}
