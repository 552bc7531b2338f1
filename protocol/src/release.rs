use super::acquire::fault_of;
use super::message::Reply;
use super::{Fault, majority};

/// How a release ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReleaseOutcome {
    /// A majority of all nodes held the lock and let it go.
    Released,
    /// So many nodes did not hold it any more that it had lapsed before.
    Lapsed,
    /// Too few answered to say. The lock is gone by the end of its TTL.
    InDoubt(Vec<(usize, Fault)>),
}

/// One release of all nodes: protocol, "Renew, release".
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Release {
    replies: Vec<Option<Result<bool, Fault>>>,
}

impl Release {
    /// Starts a release over `nodes` nodes, all of which are asked.
    #[must_use]
    pub fn new(nodes: usize) -> Release {
        Release { replies: vec![None; nodes] }
    }

    /// Takes what a node answered, or why it did not.
    pub fn on_reply(&mut self, node: usize, reply: Result<Reply, Fault>) {
        let Some(slot @ None) = self.replies.get_mut(node) else { return };
        *slot = Some(match reply {
            Ok(Reply::Released | Reply::Passed { .. }) => Ok(true),
            Ok(Reply::NotOwner) => Ok(false),
            other => Err(fault_of(other)),
        });
    }

    /// How it ended, as soon as no further reply can change it.
    #[must_use]
    pub fn outcome(&self) -> Option<ReleaseOutcome> {
        let nodes = self.replies.len();
        let count = |held: bool| self.replies.iter().filter(|r| **r == Some(Ok(held))).count();
        if count(true) >= majority(nodes) {
            return Some(ReleaseOutcome::Released);
        }
        if nodes - count(false) < majority(nodes) {
            return Some(ReleaseOutcome::Lapsed);
        }
        self.replies.iter().all(Option::is_some).then(|| {
            let faults = self.replies.iter().enumerate();
            ReleaseOutcome::InDoubt(
                faults
                    .filter_map(|(node, reply)| match reply {
                        Some(Err(fault)) => Some((node, fault.clone())),
                        _ => None,
                    })
                    .collect(),
            )
        })
    }
}
