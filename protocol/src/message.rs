use std::iter::repeat_n;
use std::sync::Arc;
use std::time::Duration;

use super::{ClientId, Fault, Fleet, Nonce, Owner, Resource, Stamp, Token};

/// A client's request to one node, which carries it out in one atomic step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of most fields say enough")]
pub enum Request {
    /// Lock `resource` for `owner` if it is free, and count. In shared mode, others may share it already,
    /// unless a writer waits; a grant that joins is not counted. After `ttl`, lock delay included, the owner's
    /// part of the lock expires.
    Acquire { resource: Resource, owner: Owner, mode: Mode, ttl: Duration },
    /// Keep new owners from sharing the lock, because a writer waits.
    Drain { resource: Resource, lasting: Duration },
    /// Raise the count to `token`, if the count is not above it and the lock and the memory are still those
    /// of the grant, which came with this nonce.
    Publish { resource: Resource, owner: Owner, nonce: Nonce, token: Token },
    /// Let the lock of `owner` last for another `ttl`, or set it again where it is missing. Where a shared
    /// lock is set again, the count is raised to `token`: an owner that joins is not counted, and must not be
    /// granted an older token.
    Renew { resource: Resource, owner: Owner, mode: Mode, token: Token, ttl: Duration },
    /// Let the exclusive lock of `owner` last for another `ttl`, if it lasts for longer than `least` still. It is never
    /// set again: the client does not know whether its lease has ended.
    Resume { resource: Resource, owner: Owner, least: Duration, ttl: Duration },
    /// Unlock, if `owner` holds the lock.
    Release { resource: Resource, owner: Owner },
    /// Unlock, if `owner` holds the lock, and keep a count above `token`, where the lock is missing as well: no renewal of
    /// the lease sets it again, whichever process sends it.
    Retire { resource: Resource, owner: Owner, token: Token },
    /// Let the lock of `owner` end in `rest` from now, if it does not end before: a release of a lock that
    /// has to stay held for a while. No process renews an exclusive one any more. No waiter is notified: with a
    /// `rest` of zero it is a hand-over to the next caller of the same process.
    Shorten { resource: Resource, owner: Owner, rest: Duration },
    /// Do the same for several locks in one step. Of locks that are asked for, grant all or none.
    Several(Vec<Request>),
    /// Mark this stretch of memory before a re-admission. If the node already has a nonce of this incarnation, it
    /// keeps that. `from` is the fleet that moves to the one of the session, if one does: a node that has left
    /// another fleet for `from`, or for any that was started since, joins the session's.
    Prepare { nonce: Nonce, from: Option<Fleet> },
    /// Report the era, the promise, and how long locks may still be held.
    Read,
    /// Report the state of the node to an operator. No rule of the protocol depends on it.
    Inspect,
    /// Promise that no smaller era begins again. `memory` is set where a fleet is about to start: the node
    /// promises also if it is not admitted but prepared, and this is the nonce of its memory.
    Reserve { era: u64, memory: Option<Nonce> },
    /// Admit the node if it was prepared in this run of the server, or drop its counts and begin a larger era.
    Activate {
        /// The nonce that `Prepare` answered.
        nonce: Nonce,
        era: u64,
        /// Whether to drop the counts of a node that is admitted and still crowded.
        collect: bool,
        /// Its quarantine, in which locks that it does not know of expire.
        quarantine: Duration,
        /// Whether the fleet is new: no lock was ever granted.
        new: bool,
    },
    /// Leave the fleet of the session for another: it grants, renews and publishes nothing more. The first seal stays.
    Seal { to: Fleet, step: Sealing },
    /// End the quarantine, because an operator has declared that no lock of this memory can be held.
    Open { nonce: Nonce },
}

/// How a lock is held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// By one owner.
    #[default]
    Exclusive,
    /// Together with others that share it.
    Shared,
}

/// The steps of a move at a node of the old fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sealing {
    /// Leave the old fleet.
    Leave,
    /// Promise the era of the new fleet, if the node has left.
    Promise(u64),
    /// Learn that the new fleet was started in this era. A node of the old one in a smaller era
    /// leaves, too. Nodes that have left may join any other fleet from then on.
    Done(u64),
}

impl Request {
    /// Returns one request for all of these, which are of one kind: a single one as it is.
    pub fn together(parts: Vec<Request>) -> Request {
        <[Request; 1]>::try_from(parts).map_or_else(Request::Several, |[one]| one)
    }

    /// Returns the requests that it is made of: itself, if it is not several.
    pub fn parts(&self) -> &[Request] {
        match self {
            Request::Several(parts) => parts,
            one => std::slice::from_ref(one),
        }
    }

    /// Reports whether the request only releases something. Such a request may arrive late or repeatedly.
    pub fn is_release(&self) -> bool {
        use Request::{Release, Retire, Shorten};
        self.parts().iter().all(|part| matches!(part, Release { .. } | Retire { .. } | Shorten { .. }))
    }

    /// Returns the owner of the lock that the request is about.
    pub fn owner(&self) -> Option<Owner> {
        self.parts().first()?.lock()?.1
    }

    /// Returns the resource whose lock the request is about, and the owner.
    pub fn lock(&self) -> Option<(&Resource, Option<Owner>)> {
        match self {
            Request::Acquire { resource, owner, .. }
            | Request::Publish { resource, owner, .. }
            | Request::Renew { resource, owner, .. }
            | Request::Resume { resource, owner, .. }
            | Request::Release { resource, owner, .. }
            | Request::Retire { resource, owner, .. }
            | Request::Shorten { resource, owner, .. } => Some((resource, Some(*owner))),
            Request::Drain { resource, .. } => Some((resource, None)),
            _ => None,
        }
    }
}

/// A node's answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of most fields say enough")]
pub enum Reply {
    /// The lock is the owner's. `stamp` is the count, this grant included; the nonce is that of the memory;
    /// `crowded` says that the node keeps enough counts for a new era to begin.
    Granted { stamp: Stamp, nonce: Nonce, crowded: bool },
    /// Another owner holds the lock.
    Held {
        /// Time until it expires, unless it is renewed.
        remaining: Duration,
        /// Whether it is shared, so that a writer must wait for all holders.
        shared: bool,
        /// The name of the holder that the node has stored, for display; of several, the last.
        /// [`Store`](super::Store) leaves it out: the node around it adds it.
        holder: Option<Arc<str>>,
    },
    /// No new owner joins the shared lock.
    Draining,
    /// The lock is free. It was not granted because another one of the list is not.
    Free,
    /// The answers to several requests.
    Several(Vec<Reply>),
    /// The count of this era has run out: a new era must begin.
    Exhausted,
    /// The node is quarantined and does not grant yet.
    Quarantined { remaining: Duration },
    /// The node has forgotten something, or was never admitted. It gives no vote.
    NotAdmitted,
    /// The node belongs to this fleet, which is not the one of the session. It gives no vote.
    OtherFleet(Fleet),
    /// The node has left the fleet of the session, or another, for this one. It gives no vote.
    Moved(Fleet),
    /// The count is the token.
    Published,
    /// The lock lasts for another TTL.
    Renewed,
    /// The lock was the owner's, and is gone or ends when it was asked to.
    Released,
    /// The lock was the owner's and is gone, and a waiting client was notified.
    /// [`Store`](super::Store) notifies no client: the node around it does.
    ReleasedAndNotified { client: ClientId },
    /// The lock or the memory of the grant is no longer the owner's, or another owner had the lock since.
    NotOwner,
    /// The node's memory is marked.
    Prepared(Prepared),
    /// The era, the promise, and how long locks may still be held. To [`Request::Seal`]: of a node that has left
    /// the fleet of the session for the one asked for.
    State(NodeState),
    /// The state of the node, for an operator, with the number of counts that it keeps.
    Report { state: NodeState, quarantine: Option<Duration>, counts: u64 },
    /// The era is promised.
    Reserved { nonce: Nonce },
    /// The node is admitted.
    Activated,
    /// The quarantine has ended.
    Opened,
    /// The memory is not the one that was prepared, or the era is not above the node's own.
    Forgotten,
}

impl Reply {
    /// Returns the answers that it is made of: itself, if it is not several.
    pub fn parts(&self) -> &[Reply] {
        match self {
            Reply::Several(parts) => parts,
            one => std::slice::from_ref(one),
        }
    }

    /// Reports whether the node should begin a new era.
    pub fn is_full(&self) -> bool {
        let is_full = |part: &Reply| matches!(part, Reply::Exhausted | Reply::Granted { crowded: true, .. });
        self.parts().iter().any(is_full)
    }

    /// Reports whether the node has forgotten something, according to it or one of its parts.
    pub fn is_not_admitted(&self) -> bool {
        self.parts().contains(&Reply::NotAdmitted)
    }

    /// Reports whether it grants a lock, or names one that is held.
    pub fn shows_use(&self) -> bool {
        self.parts().iter().any(|part| matches!(part, Reply::Granted { .. } | Reply::Held { .. }))
    }

    /// Returns the answer to each part of a request. A reply that has no separate answers counts for every part.
    pub fn apart(reply: Result<Reply, Fault>, parts: usize) -> impl Iterator<Item = Result<Reply, Fault>> {
        let (each, same) = match reply {
            Ok(Reply::Several(replies)) if replies.len() == parts => (replies, None),
            other => (Vec::new(), Some(repeat_n(other, parts))),
        };
        each.into_iter().map(Ok).chain(same.into_iter().flatten())
    }

    pub(super) fn prepared(&self) -> Option<Prepared> {
        if let Reply::Prepared(prepared) = self { Some(prepared.clone()) } else { None }
    }

    /// Returns the memory in which the node has promised.
    pub(super) fn promise(&self) -> Option<Nonce> {
        if let Reply::Reserved { nonce } = self { Some(*nonce) } else { None }
    }

    pub(super) fn state(&self) -> Option<NodeState> {
        if let Reply::State(state) = self { Some(*state) } else { None }
    }
}

/// A node's report before it is re-admitted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prepared {
    /// Whether it is admitted, perhaps by another client meanwhile.
    pub admitted: bool,
    /// Whether it has granted no lock in this memory, and has no state of an older run.
    pub blank: bool,
    /// Whether it is admitted and its counts should be collected.
    pub crowded: bool,
    /// The other fleet in its state, if any: of an older run, or one that it has left.
    pub other: Option<Fleet>,
    /// Its state, perhaps of an older run, with the nonce in force.
    pub state: NodeState,
    /// Its own clock: the time since 2026-01-01T00:00:00Z.
    pub clock: Duration,
    /// The server's uptime.
    pub uptime: Duration,
}

/// The part of a node's memory that other nodes' decisions rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeState {
    /// This stretch of memory.
    pub nonce: Nonce,
    /// The era in which it counts.
    pub era: u64,
    /// The largest era that it has promised.
    pub reserved: u64,
    /// Longest time for which a lock granted or renewed there may still be held.
    pub longest: Duration,
}

impl NodeState {
    /// Returns the largest era that it knows of.
    pub fn highest(&self) -> u64 {
        self.era.max(self.reserved)
    }
}

/// Returns the fault that an unexpected reply stands for.
pub fn fault_of(reply: Result<Reply, Fault>) -> Fault {
    match reply {
        Err(fault) => fault,
        Ok(Reply::NotAdmitted) => Fault::NotAdmitted,
        Ok(Reply::OtherFleet(fleet)) => Fault::OtherFleet { members: fleet.names() },
        Ok(Reply::Moved(fleet)) => Fault::Moved { to: fleet.names() },
        Ok(Reply::Quarantined { remaining }) => Fault::Quarantined(remaining),
        Ok(Reply::Exhausted) => Fault::Exhausted,
        // A server may send any number of them.
        Ok(Reply::Several(_)) => Fault::InvalidReply("several answers".into()),
        Ok(other) => Fault::InvalidReply(format!("{other:?}")),
    }
}
