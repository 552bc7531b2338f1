use std::time::Duration;

use super::{Incarnation, Nonce, Owner, Stamp};
use crate::{Resource, Token};

/// What a client asks of one node. Each is one atomic step there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Request {
    /// Lock `resource` for `owner` if it is free, and count.
    Acquire {
        /// What to lock.
        resource: Resource,
        /// For whom.
        owner: Owner,
        /// When the lock expires by itself, lock delay included.
        ttl: Duration,
    },
    /// Raise the count to `token`, if it is not above it and the lock and the memory are
    /// still those of the grant.
    Publish {
        /// What is locked.
        resource: Resource,
        /// Who must still hold it.
        owner: Owner,
        /// The nonce that the grant came with.
        nonce: Nonce,
        /// The chosen token.
        token: Token,
    },
    /// Let the lock of `owner` last for another `ttl`, or heal it where it is missing.
    Renew {
        /// What is locked.
        resource: Resource,
        /// Who must still hold it.
        owner: Owner,
        /// The lease's token, which stays.
        token: Token,
        /// When the lock expires by itself, counted from now.
        ttl: Duration,
    },
    /// Unlock, if `owner` holds the lock.
    Release {
        /// What to unlock.
        resource: Resource,
        /// Who must hold it.
        owner: Owner,
    },
    /// Mark this stretch of memory before a re-admission; the first nonce stays.
    Prepare {
        /// Kept if the node has none from this incarnation.
        nonce: Nonce,
    },
    /// Tell the era and what has been promised.
    Read,
    /// Promise that no smaller era is given out again.
    Reserve {
        /// The era to promise.
        era: u64,
    },
    /// Admit the node, or start a larger era on it.
    Activate {
        /// The incarnation that was prepared.
        incarnation: Incarnation,
        /// The nonce that `Prepare` answered.
        nonce: Nonce,
        /// The era to start.
        era: u64,
        /// How long it must not grant if it forgot: locks that it does not know of expire.
        quarantine: Duration,
        /// How long it must not grant if its era grows: the second that named it passes.
        settle: Duration,
    },
}

impl Request {
    /// The resource whose lock it is about.
    pub(super) fn resource(&self) -> Option<&Resource> {
        match self {
            Request::Acquire { resource, .. }
            | Request::Publish { resource, .. }
            | Request::Renew { resource, .. }
            | Request::Release { resource, .. } => Some(resource),
            Request::Prepare { .. }
            | Request::Read
            | Request::Reserve { .. }
            | Request::Activate { .. } => None,
        }
    }
}

/// What a node answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The lock is the owner's.
    Granted {
        /// The count, this grant included.
        stamp: Stamp,
        /// This stretch of the node's memory.
        nonce: Nonce,
        /// The node keeps so many counts that a new era should be taken.
        crowded: bool,
    },
    /// Another owner holds the lock.
    Held {
        /// Until it expires by itself, unless it is renewed.
        remaining: Duration,
    },
    /// The count of this era has run out; a new era is needed.
    Exhausted,
    /// The node was re-admitted and does not grant yet.
    Quarantined {
        /// For how long.
        remaining: Duration,
    },
    /// The node has forgotten something, or was never admitted. No vote.
    NotAdmitted,
    /// The count is the token.
    Published,
    /// The lock lasts for another TTL.
    Renewed,
    /// The lock was the owner's and is gone.
    Released,
    /// The lock, or the memory of the grant, is not the owner's any more, or somebody has
    /// counted since.
    NotOwner,
    /// The node's memory is marked.
    Prepared(Prepared),
    /// The era and what has been promised.
    State(State),
    /// The era is promised.
    Reserved,
    /// The node is admitted with at least the era asked for.
    Activated,
    /// The memory is not the one that was prepared.
    Forgotten,
}

/// What a node says of itself before it is re-admitted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prepared {
    /// The incarnation that answered.
    pub incarnation: Incarnation,
    /// The nonce in force.
    pub nonce: Nonce,
    /// Whether it is admitted, or was by somebody else meanwhile.
    pub admitted: bool,
    /// Whether it has never granted a lock in this stretch of memory and nothing older
    /// is written on it.
    pub blank: bool,
    /// What is written on it, an older life's included.
    pub state: State,
    /// Its own clock, since 2026-01-01T00:00:00Z.
    pub clock: Duration,
}

/// Era, promise and longest TTL as they stand on a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// The era in which it counts.
    pub era: u64,
    /// The largest era promised to anybody.
    pub reserved: u64,
    /// The longest TTL that any client asked for, lock delay included.
    pub longest: Duration,
}
