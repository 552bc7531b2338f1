//! What nodes say of a lock: who holds it, and what a release by force has done.

use std::collections::BTreeMap;

use fencing::Token;
use fencing::lock::redlock::{Forced, NodeView};
use fencing::lock::{Fault, Holder};

use crate::say;
use crate::voters::{Turnout, Voters};

/// Tokens of an era.
const COUNTS: u64 = 1_000_000;

/// The holder of a lock on nodes, or all who share it.
pub(super) struct LockHolders {
    /// The value of the lock on the nodes, and its holder: more than one where they share it.
    pub(super) parts: BTreeMap<Vec<u8>, Option<Holder>>,
    /// The token, if a majority has the lock: that of a majority, or else the largest. `None` on fewer nodes: the
    /// next holder may get the same token.
    token: Option<Token>,
    nodes: usize,
    /// Whether a majority may have the lock: nodes that have not answered, or have forgotten locks, may have had it.
    pub(super) uncertain: bool,
}

impl LockHolders {
    /// Puts together who holds the lock. On less than a majority it is an attempt, or what is left of a lease: it
    /// counts only where no client has a majority.
    pub(super) fn of(views: &[NodeView], turnout: Turnout) -> Vec<LockHolders> {
        let mut all: BTreeMap<Option<&[u8]>, Vec<&NodeView>> = BTreeMap::new();
        for view in views {
            let Some(first) = view.locks.first() else { continue };
            all.entry((!first.shared).then_some(&first.value)).or_default().push(view);
        }
        let any = all.values().any(|views| views.len() >= turnout.needed);
        all.retain(|_, views| !any || views.len() >= turnout.needed);
        let holders = all.into_values().map(|views| {
            let mut known: Vec<Token> = views.iter().filter_map(|view| view.known).collect();
            let token = turnout.agreed(&mut known).or(known.last().copied()).filter(|_| any);
            let locks = views.iter().flat_map(|view| &view.locks);
            let parts = locks.map(|lock| (lock.value.clone(), lock.holder.clone())).collect();
            let nodes = views.len();
            let uncertain = !any && turnout.may_be_held(nodes);
            LockHolders { parts, token, nodes, uncertain }
        });
        holders.collect()
    }

    /// Returns whether the lock may have this token. Forgotten tokens are older than all known ones.
    pub(super) fn has(&self, token: Token) -> bool {
        if let Some(own) = self.own_token() { token == own } else { self.token.is_some_and(|era| token < era) }
    }

    /// The token, unless it is from before the present era: counts start again with each.
    pub(super) fn own_token(&self) -> Option<Token> {
        self.token.filter(|token| token.get() % COUNTS > 0)
    }

    pub(super) fn describe(all: &[LockHolders], turnout: Turnout) -> String {
        let Turnout { remember, size, .. } = turnout;
        let one = |holders: &LockHolders| {
            let (named, nodes) = (named(holders.parts.values().map(Option::as_ref)), holders.nodes);
            match holders.token {
                Some(era) if holders.own_token().is_none() => {
                    format!("{named}, with a token below {era}, from before the present era")
                }
                Some(token) => format!("{named}, token {token}"),
                None if holders.uncertain => {
                    format!("perhaps {named} (seen on {nodes} of {remember} nodes that remember, of {size})")
                }
                None => format!("{named} (on {nodes} of {size} nodes: an unfinished attempt, or an ending lease)"),
            }
        };
        all.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

pub(super) fn named<'a>(holders: impl Iterator<Item = Option<&'a Holder>>) -> String {
    let one = |holder: Option<&Holder>| holder.map_or_else(|| "an unnamed holder".to_owned(), Holder::to_string);
    holders.map(one).collect::<Vec<_>>().join(", ")
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct NodeAnswers {
    pub(super) taken: usize,
    pub(super) free: usize,
    /// On how many another client holds it, and keeps it.
    pub(super) others: usize,
    /// Number of nodes that have not answered: they may have done it.
    pub(super) silent: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ForcedOutcome {
    Released,
    /// The lock is another client's, or was free already.
    Gone,
    /// No node that answered had it any more, and others did not answer.
    Unknown,
    /// The holder may keep it, or what is left of it.
    TooFew,
}

impl NodeAnswers {
    /// Counts them, and says which nodes have not released it. The first `unasked` of those at fault were not asked.
    pub(super) fn of(voters: &Voters, forced: &[Forced], unasked: usize) -> NodeAnswers {
        let mut answers = NodeAnswers::default();
        for (index, (node, fault)) in voters.faults.iter().enumerate() {
            say::error(match fault {
                Fault::Exhausted => format!(
                    "{node}: not released: its count has run out, so it could not refuse the holder's renewal; the \
                     lock is free when it expires"
                ),
                Fault::NotAdmitted | Fault::OtherFleet { .. } | Fault::Moved { .. } => {
                    format!("{node}: not released: {fault}")
                }
                _ if index < unasked => format!("{node}: not released: {fault}"),
                _ => {
                    answers.silent += 1;
                    format!("{node}: perhaps released; it did not answer: {fault}")
                }
            });
        }
        for (voter, forced) in voters.nodes.iter().zip(forced) {
            match forced {
                Forced::Taken(_) => answers.taken += 1,
                Forced::Free => answers.free += 1,
                _ => {
                    answers.others += 1;
                    let node = &voter.node;
                    say::error(format_args!("{node}: another client holds the lock there, and keeps it"));
                }
            }
        }
        answers
    }

    /// Number of nodes that refuse the holder's renewal now.
    pub(super) fn noted(self) -> usize {
        self.taken + self.free
    }

    pub(super) fn outcome(self, needed: usize) -> ForcedOutcome {
        match self.taken {
            _ if self.others >= needed => ForcedOutcome::Gone,
            0 if self.silent > 0 => ForcedOutcome::Unknown,
            0 if self.free + self.others >= needed => ForcedOutcome::Gone,
            1.. if self.noted() >= needed => ForcedOutcome::Released,
            _ => ForcedOutcome::TooFew,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ForcedOutcome::{Gone, Released, TooFew, Unknown};
    use super::*;

    #[test]
    fn three_nodes_decide() {
        for ([taken, free, others, silent], outcome) in [
            // They have released it, or refuse the holder.
            ([5, 0, 0, 0], Released),
            ([1, 2, 0, 2], Released),
            ([2, 1, 2, 0], Released),
            ([2, 0, 0, 3], TooFew),
            ([2, 0, 2, 1], TooFew),
            // Another client keeps it. What was left of an old lease may be taken from beside it.
            ([0, 0, 5, 0], Gone),
            ([2, 0, 3, 0], Gone),
            ([0, 0, 3, 2], Gone),
            // Those that have not answered may have released it.
            ([0, 5, 0, 0], Gone),
            ([0, 2, 2, 0], Gone),
            ([0, 3, 0, 2], Unknown),
            ([0, 0, 0, 5], Unknown),
            // All have refused.
            ([0, 0, 0, 0], TooFew),
        ] {
            let answers = NodeAnswers { taken, free, others, silent };
            assert_eq!(answers.outcome(3), outcome, "{answers:?}");
        }
    }
}
