use std::time::Duration;

use super::NodeCause;

/// How the nodes stand, as this client sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// How many nodes are a majority.
    pub needed: usize,
    /// How many can grant a lock now. A node that is quarantined can't.
    pub granting: usize,
    /// What stands against the others.
    pub causes: Vec<NodeCause>,
    /// The names of the nodes, which are the identity of the fleet. Empty for a database.
    pub fleet: Vec<String>,
    /// How each node that is admitted stands, quarantined or not. Empty for a database.
    pub nodes: Vec<NodeHealth>,
}

/// How one admitted node stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeHealth {
    /// The node, as an operator knows it.
    pub node: String,
    /// The era in which it counts: the high nine digits of its tokens.
    pub era: u64,
    /// For how long a lock that it has granted or renewed may still be out. If it forgets, it
    /// and the others are closed for no longer than that.
    pub longest: Duration,
    /// How long it grants nothing yet.
    pub quarantine: Option<Duration>,
    /// For how many resources it keeps a count.
    pub counts: u64,
    /// Whether it keeps so many that they are collected.
    pub crowded: bool,
}

impl Health {
    /// Whether a majority can grant a lock now.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        self.granting >= self.needed
    }
}
