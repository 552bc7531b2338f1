//! Renewal and release of the locks that one attempt has acquired: protocol, "Renew, release".

use std::ops::Range;

use super::machine::{Address, Machine};
use super::message::{Reply, Request};
use super::round::Round;
use super::{Attempt, Fault, NonEmpty, Resource, Time, Token, majority};

/// The result of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Renewed {
    /// A majority of all nodes has extended each lock. The lease now ends at this time.
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

/// One request to all nodes about the locks of a lease, as a state machine: a [`Renew`] or a [`Release`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AskAll<T> {
    request: Request,
    unasked: Range<usize>,
    /// The nodes' answers about each lock.
    locks: Vec<Round>,
    /// The outcome if each lock is renewed or released by a majority, and the time when that is too late.
    done: T,
    too_late: Option<Time>,
    /// The outcome if this many nodes report that the owner has lost one of the locks.
    gone: T,
    enough: usize,
}

/// One renewal. If it fails, it releases nothing; the lease ends when it would have.
pub type Renew = AskAll<Renewed>;

/// One release. If too few nodes have answered to say, the locks are gone by the end of their TTL.
pub type Release = AskAll<Released>;

impl Renew {
    /// Starts a renewal over `nodes` nodes, of the locks that this attempt has acquired.
    pub fn new(
        nodes: usize,
        Attempt { owner, mode, terms }: Attempt,
        held: &NonEmpty<(Resource, Token)>,
        now: Time,
    ) -> Renew {
        let ttl = terms.closed_for();
        let renew = |(resource, token)| Request::Renew { resource, owner, mode, token, ttl };
        Renew::asking(nodes, held.iter().cloned().map(renew).collect(), terms.deadline(now))
    }

    /// Starts a renewal of exclusive locks of which this client does not know whether the lease has ended: it renews
    /// what a majority still has, and sets no lock again. If it succeeds, the [missing](Renew::missing) ones may be set.
    pub fn resuming(
        nodes: usize,
        Attempt { owner, terms, .. }: Attempt,
        held: &NonEmpty<(Resource, Token)>,
        now: Time,
    ) -> Renew {
        let (least, ttl) = (terms.lock_delay, terms.closed_for());
        let resume = |(resource, _)| Request::Resume { resource, owner, least, ttl };
        Renew::asking(nodes, held.iter().cloned().map(resume).collect(), terms.deadline(now))
    }

    /// Returns the nodes that have answered that they lack one of the locks.
    pub fn missing(&self) -> impl Iterator<Item = usize> {
        let lacks = |node: &usize| self.locks.iter().any(|lock| lock.has(*node, &Reply::NotOwner));
        (0..self.locks.first().map_or(0, Round::nodes)).filter(lacks)
    }

    fn asking(nodes: usize, parts: Vec<Request>, deadline: Time) -> Renew {
        let locks = vec![Round::new(nodes); parts.len()];
        let request = Request::together(parts);
        let (done, gone) = (Renewed::Until(deadline), Renewed::Superseded);
        let (unasked, too_late, enough) = (0..nodes, Some(deadline), majority(nodes));
        AskAll { request, unasked, locks, done, too_late, gone, enough }
    }
}

impl Release {
    /// Starts a release over `nodes` nodes, all of which are asked this.
    pub fn new(nodes: usize, request: Request) -> Release {
        let locks = vec![Round::new(nodes); request.parts().len()];
        let (done, gone) = (Released::Released, Released::Lapsed);
        // The others are no majority.
        let (unasked, too_late, enough) = (0..nodes, None, nodes + 1 - majority(nodes));
        AskAll { request, unasked, locks, done, too_late, gone, enough }
    }
}

impl<T: Clone> Machine for AskAll<T> {
    /// The error: the fault of each node, if too few have done it.
    type Outcome = Result<T, Vec<(usize, Fault)>>;

    fn next_request(&mut self) -> Option<(Address, Request)> {
        self.unasked.next().map(|node| (node.into(), self.request.clone()))
    }

    fn on_reply(&mut self, from: Address, reply: Result<Reply, Fault>) {
        let replies = Reply::apart(reply, self.locks.len());
        for (lock, reply) in self.locks.iter_mut().zip(replies) {
            lock.take(from, reply);
        }
    }

    /// The majority is that of all nodes, not of those once acquired.
    fn outcome(&self, now: Time) -> Option<Self::Outcome> {
        let renews = !self.request.is_release();
        let done = |reply: &Reply| match reply {
            Reply::Renewed => renews,
            Reply::Released | Reply::ReleasedAndNotified { .. } => !renews,
            _ => false,
        };
        let held = |reply: &Reply| matches!(reply, Reply::Held { .. });
        let gone = |reply: &Reply| *reply == Reply::NotOwner || (renews && held(reply));
        if self.locks.iter().any(|lock| lock.count(gone) >= self.enough) {
            return Some(Ok(self.gone.clone()));
        }
        let in_time = self.too_late.is_none_or(|end| now < end);
        let undone = |lock: &&Round| !in_time || lock.count(done) < lock.majority();
        let Some(lock) = self.locks.iter().find(undone) else {
            return Some(Ok(self.done.clone()));
        };
        (!in_time || lock.is_over()).then(|| Err(lock.faults(|reply| done(reply) || gone(reply))))
    }
}
