//! Renewal and release of the locks that one attempt has acquired: protocol, "Renew, release".

use std::ops::Range;

use super::machine::{Address, Machine};
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

/// One request to every node, and what each answers about each lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Question {
    request: Request,
    unasked: Range<usize>,
    locks: Vec<Round>,
}

impl Question {
    fn new(nodes: usize, request: Request) -> Question {
        let locks = vec![Round::new(nodes); request.parts().len()];
        Question { request, unasked: 0..nodes, locks }
    }

    fn next_request(&mut self) -> Option<(Address, Request)> {
        self.unasked.next().map(|node| (node.into(), self.request.clone()))
    }

    fn on_reply(&mut self, from: Address, reply: Result<Reply, Fault>) {
        let replies = Reply::apart(reply, self.locks.len());
        for (lock, reply) in self.locks.iter_mut().zip(replies) {
            lock.take(from, reply);
        }
    }
}

/// One renewal of one lock or several, as a state machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Renew {
    question: Question,
    deadline: Time,
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
        let request = Request::together(held.iter().map(renew).collect());
        let deadline = deadlines.min().unwrap_or_default();
        Renew { question: Question::new(nodes, request), deadline }
    }
}

impl Machine for Renew {
    type Outcome = RenewOutcome;

    fn next_request(&mut self) -> Option<(Address, Request)> {
        self.question.next_request()
    }

    fn on_reply(&mut self, from: Address, reply: Result<Reply, Fault>) {
        self.question.on_reply(from, reply);
    }

    /// The majority is that of all nodes, not of those once acquired.
    fn outcome(&self, now: Time) -> Option<RenewOutcome> {
        let renewed = |reply: &Reply| *reply == Reply::Renewed;
        let superseded = |reply: &Reply| matches!(reply, Reply::Held { .. } | Reply::NotOwner);
        let in_time = now < self.deadline;
        let (mut open, mut failed) = (false, None);
        for lock in &self.question.locks {
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
pub struct Release(Question);

impl Release {
    /// Starts a release over `nodes` nodes, all of which are asked this.
    pub fn new(nodes: usize, request: Request) -> Release {
        Release(Question::new(nodes, request))
    }
}

impl Machine for Release {
    type Outcome = ReleaseOutcome;

    fn next_request(&mut self) -> Option<(Address, Request)> {
        self.0.next_request()
    }

    fn on_reply(&mut self, from: Address, reply: Result<Reply, Fault>) {
        self.0.on_reply(from, reply);
    }

    /// It lapsed if one lock has, is in doubt if one is.
    fn outcome(&self, _: Time) -> Option<ReleaseOutcome> {
        let released = |reply: &Reply| matches!(reply, Reply::Released | Reply::Passed { .. });
        let lapsed = |reply: &Reply| *reply == Reply::NotOwner;
        let mut outcome = ReleaseOutcome::Released;
        for lock in &self.0.locks {
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
