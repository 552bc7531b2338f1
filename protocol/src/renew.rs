use super::acquire::fault_of;
use super::message::{Reply, Request};
use super::{Attempt, Fault, Mode, majority};
use crate::time::Time;
use crate::token::Token;

/// How a renewal ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RenewOutcome {
    /// A majority of all nodes has extended the lock.
    Renewed {
        /// When the lease ends now.
        deadline: Time,
    },
    /// A majority of all nodes says that somebody else has come: it will not get better.
    Superseded,
    /// Not renewed this time. It releases nothing; the lease ends when it would have.
    Failed(Vec<(usize, Fault)>),
}

/// One renewal, as a state machine: protocol, "Renew, release".
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Renew {
    attempt: Attempt,
    token: Token,
    started: Time,
    replies: Vec<Option<Vote>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Vote {
    Renewed,
    Superseded,
    Failed(Fault),
}

impl Renew {
    /// Starts a renewal over `nodes` nodes, of the lock that `attempt` has acquired.
    #[must_use]
    pub fn new(nodes: usize, attempt: Attempt, token: Token, now: Time) -> Renew {
        Renew { attempt, token, started: now, replies: vec![None; nodes] }
    }

    /// What to send to every node.
    #[must_use]
    pub fn request(&self) -> Request {
        let (resource, owner) = (self.attempt.resource.clone(), self.attempt.owner);
        let (token, ttl) = (self.token, self.attempt.terms.closed_for());
        match self.attempt.mode {
            Mode::Exclusive => Request::Renew { resource, owner, token, ttl },
            Mode::Shared => Request::RenewShare { resource, owner, token, ttl },
        }
    }

    /// Takes what a node answered, or why it did not.
    pub fn on_reply(&mut self, node: usize, reply: Result<Reply, Fault>) {
        let Some(vote @ None) = self.replies.get_mut(node) else { return };
        *vote = Some(match reply {
            Ok(Reply::Renewed) => Vote::Renewed,
            Ok(Reply::Held { .. } | Reply::Shared { .. } | Reply::NotOwner) => Vote::Superseded,
            other => Vote::Failed(fault_of(other)),
        });
    }

    /// How the renewal ended, as soon as no further reply can change it. The majority is
    /// that of all nodes, not of those once acquired.
    #[must_use]
    pub fn outcome(&self, now: Time) -> Option<RenewOutcome> {
        let needed = majority(self.replies.len());
        let count =
            |vote: Option<Vote>| self.replies.iter().filter(|reply| **reply == vote).count();
        let deadline = self.attempt.terms.deadline(self.started);
        let renewed = count(Some(Vote::Renewed));
        if renewed >= needed && now < deadline {
            return Some(RenewOutcome::Renewed { deadline });
        }
        if count(Some(Vote::Superseded)) >= needed {
            return Some(RenewOutcome::Superseded);
        }
        (count(None) == 0 || now >= deadline).then(|| {
            let faults = self.replies.iter().enumerate();
            RenewOutcome::Failed(
                faults
                    .filter_map(|(node, vote)| match vote {
                        Some(Vote::Failed(fault)) => Some((node, fault.clone())),
                        None => Some((node, Fault::TimedOut)),
                        Some(_) => None,
                    })
                    .collect(),
            )
        })
    }
}
