use std::time::Duration;

use crate::lock::error::NodeCause;

/// The state of the servers, as this client sees it: the nodes, or the one service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Number of nodes in a majority; one where one service keeps the leases.
    pub needed: usize,
    /// Number of nodes that can grant a lock now. A quarantined node can't.
    pub granting: usize,
    /// The faults of the others.
    pub causes: Vec<NodeCause>,
    /// The names of the nodes: the identity of the fleet. Empty where there are no nodes.
    pub fleet: Vec<String>,
    /// The state of each admitted node, quarantined or not. Empty where there are no nodes.
    pub nodes: Vec<NodeHealth>,
}

/// The state of one admitted node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeHealth {
    /// The node, as an operator knows it.
    pub node: String,
    /// The era in which it counts: the high nine digits of its tokens.
    pub era: u64,
    /// Longest time for which a lock that it has granted or renewed may still be held. If it
    /// forgets, the fleet is quarantined for no longer than that.
    pub longest: Duration,
    /// For how long it still grants nothing, if it is quarantined.
    pub quarantine: Option<Duration>,
    /// Number of resources with a count.
    pub counts: u64,
    /// Whether it holds 100,000 counters or more, so that clients collect them.
    pub crowded: bool,
}

impl Health {
    /// Returns the health of a back end that is one service: it grants, or it has these faults.
    pub(crate) fn of_one(causes: Vec<NodeCause>) -> Health {
        let granting = usize::from(causes.is_empty());
        Health { needed: 1, granting, causes, fleet: Vec::new(), nodes: Vec::new() }
    }

    /// Reports whether a majority can grant a lock now, or the one service.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        self.granting >= self.needed
    }
}
