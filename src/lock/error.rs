use std::fmt;
use std::time::Duration;

use crate::protocol::Fault;
use crate::resource::Resource;

/// Why a lock was not acquired.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Another owner holds it. The nodes are well.
    #[error("{resource} is held by another; try again in {} ms", .retry_after.as_millis())]
    Held {
        /// What was to be locked.
        resource: Resource,
        /// When the lock will have expired unless its holder renews or releases it.
        retry_after: Duration,
    },
    /// Too few nodes gave a vote: where there is one database, it did not. Nobody may
    /// hold the lock.
    #[error("{}", NoQuorum(.resource, *.needed, *.granted, .causes))]
    NoQuorum {
        /// What was to be locked.
        resource: Resource,
        /// How many nodes are a majority.
        needed: usize,
        /// How many granted.
        granted: usize,
        /// Why the others did not.
        causes: Vec<NodeCause>,
    },
}

impl AcquireError {
    /// What the metrics call it.
    pub(super) fn label(&self) -> &'static str {
        match self {
            AcquireError::Held { .. } => "held",
            AcquireError::NoQuorum { .. } => "no_quorum",
        }
    }
}

/// One node's fault. The name hides the password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCause {
    /// The node, as an operator knows it.
    pub node: String,
    /// Why it gave no vote.
    pub cause: Fault,
}

impl fmt::Display for NodeCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.cause)
    }
}

struct NoQuorum<'a>(&'a Resource, usize, usize, &'a [NodeCause]);

impl fmt::Display for NoQuorum<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoQuorum(resource, needed, granted, causes) = *self;
        if needed == 1 {
            return write!(f, "no answer for {resource}, which may be free: {}", Causes(causes));
        }
        write!(f, "no quorum for {resource}: {granted} of the {needed} nodes needed granted; ")?;
        fmt::Display::fmt(&Causes(causes), f)
    }
}

pub(super) struct Causes<'a>(pub(super) &'a [NodeCause]);

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, cause) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("; ")?;
            }
            fmt::Display::fmt(cause, f)?;
        }
        Ok(())
    }
}

/// What a release found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The lease was held until now and is free.
    Released,
    /// The lease had lapsed before; somebody else may hold it.
    Lapsed,
}

/// A release of which nobody can say whether it happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("release in doubt, the lock is gone by the end of its TTL: {}", Causes(.causes))]
pub struct ReleaseError {
    /// Which nodes did not answer, and why.
    pub causes: Vec<NodeCause>,
}
