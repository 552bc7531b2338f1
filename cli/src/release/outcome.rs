//! The result of a release by force.

/// What the nodes have answered that were asked to release.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct NodeAnswers {
    /// On how many the lock was taken.
    pub(super) taken: usize,
    /// On how many it was free.
    pub(super) free: usize,
    /// On how many another client holds it, and keeps it.
    pub(super) others: usize,
    /// How many have not answered: they may have done it.
    pub(super) silent: usize,
}

/// The result, from all answers.
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
    /// How many refuse the holder's renewal now.
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
