use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::machine::{Address, Machine};
use super::message::{Reply, Request, fault_of};
use super::{Fault, Mode, NonEmpty, Nonce, Owner, Resource, Time, Token, majority};

/// For how long a lease is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The validity of the lease, before drift is subtracted.
    pub ttl: Duration,
    /// Time for which the lock stays held after that unless it is released.
    pub lock_delay: Duration,
    /// How far two clocks may drift apart over one TTL.
    pub drift: Duration,
}

impl Terms {
    /// Returns the deadline of a lease requested at `asked`. It counts from before the request was sent, as a node's
    /// timer starts when it answers.
    pub fn deadline(&self, asked: Time) -> Time {
        asked + self.ttl.saturating_sub(self.drift)
    }

    /// Returns how long a lock stays held unless it is renewed or released.
    pub fn closed_for(&self) -> Duration {
        self.ttl.saturating_add(self.lock_delay)
    }
}

/// One attempt to acquire resources, and then the locks that it has acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// The owner of the locks; new for every attempt.
    pub owner: Owner,
    /// Alone or together with others.
    pub mode: Mode,
    /// For how long.
    pub terms: Terms,
}

/// An attempt that has acquired all of its resources, with time left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Won {
    /// The resources, in the order of the attempt, each with its token.
    pub locks: NonEmpty<(Resource, Token)>,
    /// The end of the lease unless it is renewed.
    pub deadline: Time,
}

/// The reason why an attempt has acquired none of its resources.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Lost {
    /// Enough nodes answered, and another owner holds one of the locks on too many of them.
    Held {
        /// The resource that is held for longest.
        resource: Resource,
        /// Time until enough of its locks have expired; zero if the vote was split.
        retry_after: Duration,
        /// Whether the lock is shared, and the attempt is exclusive.
        shared: bool,
        /// The name of the holder that most nodes have named, for display.
        holder: Option<Arc<str>>,
    },
    /// Too few nodes gave a vote: the fault of each, by its number.
    NoQuorum {
        /// Number of nodes that granted.
        granted: usize,
        /// The nodes that did not, and why.
        faults: Vec<(usize, Fault)>,
    },
}

/// An attempt to acquire one resource, or several together, as a state machine: protocol, "Acquire", "Several at once".
///
/// If it does not end as [`Won`], send the [`releases`](Acquire::releases). Each resource has votes
/// and a token of its own; what they have for one node goes there as one request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acquire {
    owner: Owner,
    deadline: Time,
    parts: NonEmpty<Ballot>,
    outbox: VecDeque<(usize, Request)>,
}

/// One resource of an attempt, and the vote of each node on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Ballot {
    resource: Resource,
    votes: Vec<Vote>,
    chosen: Option<Token>,
    shared: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Vote {
    Asked,
    Granted { token: Token, nonce: Nonce },
    Publishing,
    Published,
    Held(Duration, Option<Arc<str>>),
    Failed(Fault),
}

impl Acquire {
    /// Starts an attempt over `nodes` nodes, to lock these different resources.
    pub fn new(nodes: usize, attempt: Attempt, locks: NonEmpty<Resource>, now: Time) -> Acquire {
        let Attempt { owner, mode, terms } = attempt;
        let ttl = terms.closed_for();
        let ask = |resource| Request::Acquire { resource, owner, mode, ttl };
        let request = Request::together(locks.iter().cloned().map(ask).collect());
        let (votes, chosen, shared) = (vec![Vote::Asked; nodes], None, false);
        let part = |resource| Ballot { resource, votes: votes.clone(), chosen, shared };
        Acquire {
            owner,
            deadline: terms.deadline(now),
            parts: locks.map(part),
            outbox: (0..nodes).map(|node| (node, request.clone())).collect(),
        }
    }

    /// Returns what undoes it, and where. A node that has answered that other owners hold all of the locks has nothing
    /// of this owner.
    pub fn releases(&self) -> impl Iterator<Item = (Address, Request)> {
        let (owner, resources) = (self.owner, self.parts.iter().map(|part| part.resource.clone()));
        let of_part = |resource| Request::Release { resource, owner };
        let release = Request::together(resources.map(of_part).collect());
        let may_hold = move |node: &usize| {
            let is_refused = |part: &Ballot| matches!(part.votes.get(*node), Some(Vote::Held(..)));
            !self.parts.iter().all(is_refused)
        };
        let nodes = (0..self.parts.head.votes.len()).filter(may_hold);
        nodes.map(move |node| (node.into(), release.clone()))
    }
}

impl Machine for Acquire {
    type Outcome = Result<Won, Lost>;

    fn next_request(&mut self) -> Option<(Address, Request)> {
        self.outbox.pop_front().map(|(node, request)| (node.into(), request))
    }

    fn on_reply(&mut self, from: Address, reply: Result<Reply, Fault>) {
        let node = from.node;
        let awaits = |part: &&mut Ballot| matches!(part.votes.get(node), Some(Vote::Asked | Vote::Publishing));
        let awaiting: Vec<&mut Ballot> = self.parts.iter_mut().filter(awaits).collect();
        let replies = all_or_none(Reply::apart(reply, awaiting.len()).collect());
        for (part, reply) in awaiting.into_iter().zip(replies) {
            part.on_reply(node, reply);
        }
        for node in 0..self.parts.head.votes.len() {
            let parts = self.parts.iter_mut();
            let publish = parts.filter_map(|part| part.publish(node, self.owner)).collect();
            let request = Request::together(publish);
            if !request.parts().is_empty() {
                self.outbox.push_back((node, request));
            }
        }
    }

    /// It is won if each resource is, lost if one is.
    fn outcome(&self, now: Time) -> Option<Result<Won, Lost>> {
        let outcomes = || self.parts.iter().map(|part| part.outcome(now < self.deadline));
        let held_for = |lost: &Lost| match lost {
            Lost::Held { retry_after, .. } => *retry_after,
            Lost::NoQuorum { .. } => Duration::MAX,
        };
        let lost = outcomes().filter_map(|outcome| outcome?.err());
        // Of several that are held for equally long, the first.
        if let Some(lost) = lost.rev().max_by_key(held_for) {
            return Some(Err(lost));
        }
        let tokens: Option<Vec<Token>> = outcomes().map(|outcome| outcome?.ok()).collect();
        let resources = self.parts.iter().map(|part| part.resource.clone());
        let locks = NonEmpty::from_vec(resources.zip(tokens?).collect())?;
        Some(Ok(Won { locks, deadline: self.deadline }))
    }
}

/// A node grants all or none. Partial grants do not count: each resource could be won on different nodes.
fn all_or_none(replies: Vec<Result<Reply, Fault>>) -> Vec<Result<Reply, Fault>> {
    let is_grant = |reply: &Result<Reply, Fault>| match reply {
        Ok(Reply::Granted { stamp, .. }) => stamp.token().is_some(),
        _ => false,
    };
    let grants = replies.iter().filter(|reply| is_grant(reply)).count();
    if grants == 0 || grants == replies.len() {
        return replies;
    }
    let invalid = Fault::InvalidReply("granted a part of what was asked for".into());
    vec![Err(invalid); replies.len()]
}

impl Ballot {
    fn on_reply(&mut self, node: usize, reply: Result<Reply, Fault>) {
        let Some(vote) = self.votes.get_mut(node) else { return };
        // The network has repeated the grant: the answer to the publish is still to come.
        if matches!((&*vote, &reply), (Vote::Publishing, Ok(Reply::Granted { .. }))) {
            return;
        }
        self.shared |= matches!(reply, Ok(Reply::Held { shared: true, .. }));
        *vote = match (&vote, reply) {
            (Vote::Asked, Ok(Reply::Granted { stamp, nonce, .. })) => match stamp.token() {
                Some(token) => Vote::Granted { token, nonce },
                None => Vote::Failed(Fault::InvalidReply(format!("{stamp:?}"))),
            },
            (Vote::Asked, Ok(Reply::Held { remaining, holder, .. })) => Vote::Held(remaining, holder),
            (Vote::Asked, Ok(Reply::Free)) => Vote::Held(Duration::ZERO, None),
            (Vote::Publishing, Ok(Reply::Published)) => Vote::Published,
            (Vote::Publishing, Ok(Reply::NotOwner)) => Vote::Failed(Fault::GrantedTooLate),
            (_, other) => Vote::Failed(fault_of(other)),
        };
        self.choose();
    }

    /// The token is the largest among the grants counted when a majority had granted.
    fn choose(&mut self) {
        if self.chosen.is_none() && self.granted() >= majority(self.votes.len()) {
            let token = |vote: &Vote| match vote {
                Vote::Granted { token, .. } => Some(*token),
                _ => None,
            };
            self.chosen = self.votes.iter().filter_map(token).max();
        }
    }

    /// Compares a node's grant with the token. An equal one is published, one below is sent the token, and one
    /// above came too late and must not count.
    fn publish(&mut self, node: usize, owner: Owner) -> Option<Request> {
        let (chosen, vote) = (self.chosen?, self.votes.get_mut(node)?);
        let Vote::Granted { token, nonce } = *vote else { return None };
        *vote = match token.cmp(&chosen) {
            Ordering::Equal => Vote::Published,
            Ordering::Greater => Vote::Failed(Fault::GrantedTooLate),
            Ordering::Less => Vote::Publishing,
        };
        let resource = self.resource.clone();
        let publish = Request::Publish { resource, owner, nonce, token: chosen };
        (*vote == Vote::Publishing).then_some(publish)
    }

    fn count(&self, which: impl Fn(&Vote) -> bool) -> usize {
        self.votes.iter().filter(|vote| which(vote)).count()
    }

    fn granted(&self) -> usize {
        self.count(|vote| matches!(vote, Vote::Granted { .. } | Vote::Publishing | Vote::Published))
    }

    fn outcome(&self, in_time: bool) -> Option<Result<Token, Lost>> {
        if !in_time {
            return Some(Err(self.no_quorum(in_time)));
        }
        let needed = majority(self.votes.len());
        let published = self.count(|vote| *vote == Vote::Published);
        if let Some(token) = self.chosen.filter(|_| published >= needed) {
            return Some(Ok(token));
        }
        let (granted, open) = (self.granted(), self.count(|vote| *vote == Vote::Asked));
        if granted + open >= needed {
            return None;
        }
        // Lost. Whether another client holds it may depend on nodes that have not answered.
        let failed = self.count(|vote| matches!(vote, Vote::Failed(_)));
        if self.votes.len() - failed - open >= needed {
            let (resource, retry_after) = (self.resource.clone(), self.retry_after(needed - granted));
            return Some(Err(Lost::Held { resource, retry_after, shared: self.shared, holder: self.holder() }));
        }
        (open == 0 || failed > self.votes.len() - needed).then(|| Err(self.no_quorum(in_time)))
    }

    fn no_quorum(&self, in_time: bool) -> Lost {
        let fault = |(node, vote): (usize, &Vote)| Some((node, vote.fault(in_time)?));
        Lost::NoQuorum { granted: self.granted(), faults: self.votes.iter().enumerate().filter_map(fault).collect() }
    }

    /// Returns when that many of the locks seen will have expired.
    fn retry_after(&self, missing: usize) -> Duration {
        let remaining = |vote: &Vote| if let Vote::Held(left, _) = vote { Some(*left) } else { None };
        let mut held: Vec<Duration> = self.votes.iter().filter_map(remaining).collect();
        held.sort_unstable();
        missing.checked_sub(1).and_then(|last| held.get(last).copied()).unwrap_or_default()
    }

    /// Returns the holder that most nodes have named.
    fn holder(&self) -> Option<Arc<str>> {
        let name = |vote: &Vote| if let Vote::Held(_, name) = vote { name.clone() } else { None };
        let named = self.votes.iter().filter_map(name);
        let times = |holder: &Arc<str>| named.clone().filter(|name| name == holder).count();
        named.clone().max_by_key(times)
    }
}

impl Vote {
    fn fault(&self, in_time: bool) -> Option<Fault> {
        match self {
            Vote::Failed(fault) => Some(fault.clone()),
            // The attempt is lost without it, which is no fault of the node.
            Vote::Asked | Vote::Held(..) => None,
            // A grant is at fault only when time is up.
            _ => (!in_time).then_some(Fault::GrantedTooLate),
        }
    }
}
