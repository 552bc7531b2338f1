use std::time::Duration;

use super::{Fleet, Incarnation, Nonce};

/// What a node reports before it is re-admitted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prepared {
    /// The incarnation that answered.
    pub incarnation: Incarnation,
    /// Whether it is admitted, perhaps by another client meanwhile.
    pub admitted: bool,
    /// Whether it has granted no lock in this memory, and nothing of an older life is written there.
    pub blank: bool,
    /// Whether it is admitted and its counts should be collected.
    pub crowded: bool,
    /// The other fleet that is written on it, if any: of an older life, or one that it has left.
    pub other: Option<Fleet>,
    /// What is written on it, perhaps by an older life, with the nonce in force.
    pub state: NodeState,
    /// Its own clock: the time since 2026-01-01T00:00:00Z.
    pub clock: Duration,
    /// How long the server has been up.
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
    /// How long from now a lock that was granted or renewed there may still be out.
    pub longest: Duration,
}

impl NodeState {
    /// Returns the largest era that it knows of.
    pub fn highest(&self) -> u64 {
        self.era.max(self.reserved)
    }
}
