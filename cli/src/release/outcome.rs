//! The result of a release by force.

use fencing::lock::Fault;
use fencing::lock::redlock::Forced;

use crate::say;
use crate::voters::Voters;

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
