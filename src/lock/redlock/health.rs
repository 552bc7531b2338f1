use std::sync::Arc;

use futures_util::StreamExt;

use super::fleet::Fleet;
use crate::lock::NodeCause;
use crate::quorum::{Fault, Reply, Request, majority};

/// How the nodes stand, as this client sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// How many nodes are a majority.
    pub needed: usize,
    /// How many answer and are admitted; one in quarantine is, but grants nothing yet.
    pub admitted: usize,
    /// What stands against the others.
    pub causes: Vec<NodeCause>,
}

impl Health {
    /// Whether a majority answers and is admitted.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        self.admitted >= self.needed
    }
}

impl Fleet {
    pub(super) async fn health(self: &Arc<Fleet>) -> Health {
        self.start_steward().await;
        let mut calls = self.submit_all(&Request::Read);
        let mut faults = Vec::new();
        while let Some((node, answer)) = calls.next().await {
            match answer {
                Ok(Reply::State(_)) => {}
                Ok(Reply::NotAdmitted) => faults.push((node, Fault::NotAdmitted)),
                Ok(_) => faults.push((node, Fault::Nonsense("no state".into()))),
                Err(fault) => faults.push((node, fault)),
            }
        }
        let admitted = self.size() - faults.len();
        Health { needed: majority(self.size()), admitted, causes: self.causes(faults) }
    }
}
