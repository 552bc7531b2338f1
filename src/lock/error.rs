use std::time::Duration;

use fencing_protocol::{Fault, Resource, Token, about};

use crate::holder::Holder;

/// Why a lock was not acquired.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Another client holds the lock. The servers answer.
    #[error(
        "{resource} is held by another client{}; try again in {}",
        .holder.as_ref().map_or_else(String::new, |holder| format!(", {holder}")),
        about(*.retry_after)
    )]
    #[non_exhaustive]
    Held {
        /// The requested resource.
        resource: Resource,
        /// Time until the lock expires unless its holder renews or releases it.
        retry_after: Duration,
        /// The holder, for display. For a shared lock, the one whose lease ends last.
        holder: Option<Holder>,
    },
    /// Too few nodes gave a vote. Perhaps no client holds the lock.
    #[error(
        "no quorum for {resource}: {needed} of {nodes} nodes must grant, and {}{} gave no vote: {}",
        if .causes.len() + .granted < *.nodes { "at least " } else { "" },
        .causes.len(),
        joined(.causes)
    )]
    #[non_exhaustive]
    NoQuorum {
        /// The requested resource.
        resource: Resource,
        /// Number of nodes.
        nodes: usize,
        /// Number of nodes in a majority.
        needed: usize,
        /// Nodes that had granted when the attempt failed; later answers are not counted.
        granted: usize,
        /// The causes of missing votes that were known when the attempt failed.
        causes: Vec<NodeCause>,
    },
    /// This client is overloaded: it could not send the attempt or read the answers in time. Perhaps the lock is free.
    #[error("{resource} was not acquired: this client is overloaded (try again)")]
    #[non_exhaustive]
    Overloaded {
        /// The requested resource.
        resource: Resource,
    },
    /// The database, etcd or ZooKeeper gave no answer, or refused the attempt. Perhaps no client holds the lock. Also
    /// the error of a call from outside of a tokio runtime: no server was asked.
    #[error("{resource} was not acquired: {cause}")]
    #[non_exhaustive]
    Unavailable {
        /// The requested resource.
        resource: Resource,
        /// The service and its fault.
        cause: NodeCause,
    },
    /// The list is empty or too long. Nothing was requested.
    #[error("{count} resources were given; 1 to {most} can be acquired with one call")]
    #[non_exhaustive]
    WrongCount {
        /// Number of different resources in the list.
        count: usize,
        /// The limit of one call.
        most: usize,
    },
}

pub(super) const MAX_RESOURCES: usize = 128;

impl AcquireError {
    /// Returns why the servers did not grant it: the cause of each node, or that of the one service.
    /// Empty if another client holds the lock, or no server was asked.
    #[must_use]
    pub fn causes(&self) -> &[NodeCause] {
        match self {
            AcquireError::Held { .. } | AcquireError::Overloaded { .. } | AcquireError::WrongCount { .. } => &[],
            AcquireError::NoQuorum { causes, .. } => causes,
            AcquireError::Unavailable { cause, .. } => std::slice::from_ref(cause),
        }
    }

    pub(super) fn unavailable(resource: &Resource, cause: NodeCause) -> AcquireError {
        AcquireError::Unavailable { resource: resource.clone(), cause }
    }

    /// Returns whether asking again is useless: the service refuses this client, or so many nodes do that no majority
    /// is left.
    pub(super) fn is_permanent(&self) -> bool {
        let refuse = self.causes().iter().filter(|cause| matches!(cause.cause, Fault::Denied(_))).count();
        match self {
            AcquireError::NoQuorum { nodes, needed, .. } => refuse > nodes - needed,
            _ => refuse > 0,
        }
    }

    pub(super) fn label(&self) -> &'static str {
        match self {
            AcquireError::Held { .. } => "held",
            AcquireError::NoQuorum { .. } => "no_quorum",
            AcquireError::Overloaded { .. } => "overloaded",
            AcquireError::WrongCount { .. } => "wrong_count",
            AcquireError::Unavailable { .. } => "unavailable",
        }
    }
}

/// Why a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// Its deadline passed without a renewal.
    #[error("the lease expired")]
    Expired,
    /// Another client has acquired the resource since, or an operator has released it.
    #[error("another client has acquired the resource since, or an operator has released it")]
    Superseded,
    /// It was held for as long as `max_hold` allows.
    #[error("the lease reached its longest hold")]
    MaxHold,
    /// It was released.
    #[error("the lease was released")]
    Released,
}

/// The lease was lost during its work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "lease lost, {resource} token {token}: {loss}{}",
    if .causes.is_empty() { String::new() } else { format!("; the last renewal failed: {}", joined(.causes)) }
)]
#[non_exhaustive]
pub struct LeaseLost {
    /// The resource.
    pub resource: Resource,
    /// The lease's token.
    pub token: Token,
    /// Why it ended.
    pub loss: Loss,
    /// Failures of the last renewal; empty if it did not fail.
    pub causes: Vec<NodeCause>,
}

/// Why [`Lease::renew`](super::Lease::renew) renewed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenewError {
    /// The lease has ended: stop the work.
    #[error(transparent)]
    Lost(#[from] LeaseLost),
    /// Too few servers answered. The lease lasts until its old deadline; try again.
    #[error("lease not renewed yet, {resource} token {token}: {}", joined(.causes))]
    #[non_exhaustive]
    Failed {
        /// The resource.
        resource: Resource,
        /// The lease's token.
        token: Token,
        /// The failures of the servers.
        causes: Vec<NodeCause>,
    },
}

/// One server's fault. The name hides the password.
#[derive(Debug, derive_more::Display, Clone, PartialEq, Eq)]
#[display("{node}: {cause}")]
#[non_exhaustive]
pub struct NodeCause {
    /// The node, as an operator knows it.
    pub node: String,
    /// The cause of its missing vote.
    pub cause: Fault,
}

impl NodeCause {
    /// Returns a fault of this client itself.
    pub(super) fn own(cause: Fault) -> NodeCause {
        NodeCause { node: "this process".into(), cause }
    }
}

pub(super) fn joined(causes: &[NodeCause]) -> String {
    causes.iter().map(NodeCause::to_string).collect::<Vec<_>>().join("; ")
}

/// A release whose outcome is in doubt: it may have happened or not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("release in doubt, the lock expires with its TTL at the latest: {}", joined(.causes))]
pub struct ReleaseError {
    /// Which nodes did not answer, and why.
    pub causes: Vec<NodeCause>,
}
