use std::time::Duration;

use super::{Owner, Resource, Time};

/// How a lock is held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// By one owner.
    #[default]
    Exclusive,
    /// Together with others that share it.
    Shared,
}

/// For how long a lease is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Terms {
    /// How long the lease is valid, before drift is taken off.
    pub ttl: Duration,
    /// How long the lock stays closed after that if nobody releases it.
    pub lock_delay: Duration,
    /// How far two clocks may drift apart over one TTL.
    pub drift: Duration,
}

impl Terms {
    /// Returns when a lease ends that was asked for at `asked`: the TTL less drift later. It
    /// counts from before the question, because a node counts from when it answered.
    pub fn deadline(&self, asked: Time) -> Time {
        asked + self.ttl.saturating_sub(self.drift)
    }

    /// Returns how long a lock stays closed unless it is renewed or released.
    pub fn closed_for(&self) -> Duration {
        self.ttl.saturating_add(self.lock_delay)
    }
}

/// One attempt to acquire a resource, and then the lock that it has acquired.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// The resource to lock.
    pub resource: Resource,
    /// The owner of the lock; new for every attempt.
    pub owner: Owner,
    /// Alone or together with others.
    pub mode: Mode,
    /// For how long.
    pub terms: Terms,
}
