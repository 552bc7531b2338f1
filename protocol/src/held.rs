//! Renewal and release of the locks that one attempt has acquired: protocol, "Renew, release".

use std::ops::Range;

use super::machine::{Address, Machine};
use super::message::{Reply, Request};
use super::round::Round;
use super::{Attempt, Fault, NonEmpty, Time, Token};

/// The result of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Renewed {
    /// A majority of all nodes has extended each lock: when the lease ends now.
    Until(Time),
    /// A majority of all nodes reports another owner: a retry is useless.
    Superseded,
}

/// The result of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Released {
    /// The lease was held until now and is free.
    Released,
    /// The lease had lapsed before; another client may hold it.
    Lapsed,
}

/// One renewal of one lock or several, as a state machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Renew {
    request: Request,
    unasked: Range<usize>,
    deadline: Time,
    /// The nodes' answers about each lock.
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
            unasked: 0..nodes,
            deadline: deadlines.min().unwrap_or_default(),
            locks: vec![Round::new(nodes); held.len()],
        }
    }
}

impl Machine for Renew {
    /// Or why it was not renewed this time. It releases nothing; the lease ends when it would have.
    type Outcome = Result<Renewed, Vec<(usize, Fault)>>;

    fn next_request(&mut self) -> Option<(Address, Request)> {
        self.unasked.next().map(|node| (node.into(), self.request.clone()))
    }

    fn on_reply(&mut self, from: Address, reply: Result<Reply, Fault>) {
        take(&mut self.locks, from, reply);
    }

    /// The majority is that of all nodes, not of those once acquired.
    fn outcome(&self, now: Time) -> Option<Self::Outcome> {
        let renewed = |reply: &Reply| *reply == Reply::Renewed;
        let superseded = |reply: &Reply| matches!(reply, Reply::Held { .. } | Reply::NotOwner);
        let in_time = now < self.deadline;
        let (mut open, mut outcome) = (false, Ok(Renewed::Until(self.deadline)));
        for lock in &self.locks {
            if lock.count(superseded) >= lock.majority() {
                return Some(Ok(Renewed::Superseded));
            }
            if in_time && lock.count(renewed) >= lock.majority() {
                continue;
            }
            if in_time && !lock.is_over() {
                open = true;
            } else if outcome.is_ok() {
                let mut lock = lock.clone();
                lock.end();
                outcome = Err(lock.faults(|reply| renewed(reply) || superseded(reply)));
            }
        }
        (!open).then_some(outcome)
    }
}

/// One release of one lock or several on all nodes, as a state machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Release {
    request: Request,
    unasked: Range<usize>,
    locks: Vec<Round>,
}

impl Release {
    /// Starts a release over `nodes` nodes, all of which are asked this.
    pub fn new(nodes: usize, request: Request) -> Release {
        let locks = vec![Round::new(nodes); request.parts().len()];
        Release { request, unasked: 0..nodes, locks }
    }
}

impl Machine for Release {
    /// Or why too few nodes have answered to say. The locks are gone by the end of their TTL.
    type Outcome = Result<Released, Vec<(usize, Fault)>>;

    fn next_request(&mut self) -> Option<(Address, Request)> {
        self.unasked.next().map(|node| (node.into(), self.request.clone()))
    }

    fn on_reply(&mut self, from: Address, reply: Result<Reply, Fault>) {
        take(&mut self.locks, from, reply);
    }

    /// It lapsed if one lock has, is in doubt if one is.
    fn outcome(&self, _: Time) -> Option<Self::Outcome> {
        let released = |reply: &Reply| matches!(reply, Reply::Released | Reply::Passed { .. });
        let lapsed = |reply: &Reply| *reply == Reply::NotOwner;
        let mut outcome = Ok(Released::Released);
        for lock in &self.locks {
            if lock.nodes() - lock.count(lapsed) < lock.majority() {
                outcome = Ok(Released::Lapsed);
            } else if lock.count(released) < lock.majority() {
                if !lock.is_over() {
                    return None;
                }
                if outcome == Ok(Released::Released) {
                    outcome = Err(lock.faults(|reply| released(reply) || lapsed(reply)));
                }
            }
        }
        Some(outcome)
    }
}

fn take(locks: &mut [Round], from: Address, reply: Result<Reply, Fault>) {
    let replies = Reply::apart(reply, locks.len());
    for (lock, reply) in locks.iter_mut().zip(replies) {
        lock.take(from, reply);
    }
}
