//! Renewal and release of the locks that one attempt has acquired.

use nonempty::NonEmpty;

use super::message::{Reply, Request};
use super::{Attempt, Fault, Release, ReleaseOutcome, Renew, RenewOutcome};
use crate::time::Time;
use crate::token::Token;

/// One renewal of one lock or several: protocol, "Several at once".
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RenewAll(Vec<Renew>);

impl RenewAll {
    /// Starts a renewal over `nodes` nodes, of the locks that these attempts have acquired.
    #[must_use]
    pub fn new(nodes: usize, held: &NonEmpty<(Attempt, Token)>, now: Time) -> RenewAll {
        let renew =
            |(attempt, token): &(Attempt, Token)| Renew::new(nodes, attempt.clone(), *token, now);
        RenewAll(held.iter().map(renew).collect())
    }

    /// What to send to every node.
    #[must_use]
    pub fn request(&self) -> Request {
        Request::together(self.0.iter().map(Renew::request).collect())
    }

    /// Takes what a node answered, or why it did not.
    pub fn on_reply(&mut self, node: usize, reply: Result<Reply, Fault>) {
        let replies = Reply::apart(reply, self.0.len());
        for (part, reply) in self.0.iter_mut().zip(replies) {
            part.on_reply(node, reply);
        }
    }

    /// How the renewal ended, as soon as no further reply can change it. The lease is renewed when
    /// each lock is, and superseded when one is.
    #[must_use]
    pub fn outcome(&self, now: Time) -> Option<RenewOutcome> {
        let outcomes: Vec<_> = self.0.iter().map(|part| part.outcome(now)).collect();
        if outcomes.contains(&Some(RenewOutcome::Superseded)) {
            return Some(RenewOutcome::Superseded);
        }
        let outcomes: Vec<_> = outcomes.into_iter().collect::<Option<_>>()?;
        let worst = |one, other| match (&one, &other) {
            (RenewOutcome::Renewed { deadline }, RenewOutcome::Renewed { deadline: end }) => {
                RenewOutcome::Renewed { deadline: *deadline.min(end) }
            }
            (RenewOutcome::Renewed { .. }, _) => other,
            _ => one,
        };
        outcomes.into_iter().reduce(worst)
    }
}

/// One release of one lock or several on all nodes: protocol, "Several at once".
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReleaseAll(Vec<Release>);

impl ReleaseAll {
    /// Starts a release of `parts` locks over `nodes` nodes, all of which are asked.
    #[must_use]
    pub fn new(nodes: usize, parts: usize) -> ReleaseAll {
        ReleaseAll(vec![Release::new(nodes); parts])
    }

    /// Takes what a node answered, or why it did not.
    pub fn on_reply(&mut self, node: usize, reply: Result<Reply, Fault>) {
        let replies = Reply::apart(reply, self.0.len());
        for (part, reply) in self.0.iter_mut().zip(replies) {
            part.on_reply(node, reply);
        }
    }

    /// How it ended, as soon as no further reply can change it. It has lapsed when one lock has, and is
    /// in doubt when one is.
    #[must_use]
    pub fn outcome(&self) -> Option<ReleaseOutcome> {
        let outcomes: Vec<_> = self.0.iter().map(Release::outcome).collect::<Option<_>>()?;
        let rank = |outcome: &ReleaseOutcome| match outcome {
            ReleaseOutcome::Released => 0,
            ReleaseOutcome::InDoubt(_) => 1,
            ReleaseOutcome::Lapsed => 2,
        };
        outcomes.into_iter().max_by_key(rank)
    }
}
