//! The result of a release by force.

use fencing::lock::redlock::Forced;

/// What the nodes have answered.
#[derive(Clone, Copy)]
pub(super) struct NodeAnswers {
    /// On how many the lock was taken.
    pub(super) taken: usize,
    /// How many refuse the holder's renewal now.
    pub(super) noted: usize,
    /// On how many another client holds it, and keeps it.
    pub(super) others: usize,
    /// How many were asked and have not answered: they may have done it.
    silent: usize,
}

/// The result, from all answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    pub(super) fn of(forced: &[Forced], silent: usize) -> NodeAnswers {
        let count = |which: fn(&Forced) -> bool| forced.iter().filter(|it| which(it)).count();
        let taken = count(|forced| matches!(forced, Forced::Taken(_)));
        let others = count(|forced| *forced == Forced::HeldByAnother);
        NodeAnswers { taken, noted: forced.len() - others, others, silent }
    }

    pub(super) fn outcome(self, needed: usize) -> ForcedOutcome {
        if self.others >= needed {
            return ForcedOutcome::Gone;
        }
        match self.taken {
            0 if self.silent > 0 => ForcedOutcome::Unknown,
            0 if self.noted + self.others >= needed => ForcedOutcome::Gone,
            0 => ForcedOutcome::TooFew,
            _ if self.noted >= needed => ForcedOutcome::Released,
            _ => ForcedOutcome::TooFew,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(taken: usize, free: usize, others: usize, silent: usize) -> ForcedOutcome {
        let of = |forced: Forced, times| std::iter::repeat_n(forced, times);
        let forced = of(Forced::Taken(1), taken)
            .chain(of(Forced::Free, free))
            .chain(of(Forced::HeldByAnother, others));
        NodeAnswers::of(&forced.collect::<Vec<_>>(), silent).outcome(3)
    }

    #[test]
    fn a_majority_has_released_it_or_refuses_the_holder() {
        assert_eq!(outcome(5, 0, 0, 0), ForcedOutcome::Released);
        assert_eq!(outcome(1, 2, 0, 2), ForcedOutcome::Released);
        assert_eq!(outcome(2, 1, 2, 0), ForcedOutcome::Released);
        assert_eq!(outcome(2, 0, 0, 3), ForcedOutcome::TooFew);
        assert_eq!(outcome(2, 0, 2, 1), ForcedOutcome::TooFew);
    }

    /// What was left of an old lease may be taken from beside it.
    #[test]
    fn another_client_that_has_most_keeps_it() {
        assert_eq!(outcome(0, 0, 5, 0), ForcedOutcome::Gone);
        assert_eq!(outcome(2, 0, 3, 0), ForcedOutcome::Gone);
        assert_eq!(outcome(0, 0, 3, 2), ForcedOutcome::Gone);
    }

    #[test]
    fn who_has_not_answered_may_have_released_it() {
        assert_eq!(outcome(0, 5, 0, 0), ForcedOutcome::Gone);
        assert_eq!(outcome(0, 2, 2, 0), ForcedOutcome::Gone);
        assert_eq!(outcome(0, 3, 0, 2), ForcedOutcome::Unknown);
        assert_eq!(outcome(0, 0, 0, 5), ForcedOutcome::Unknown);
        // All have refused.
        assert_eq!(outcome(0, 0, 0, 0), ForcedOutcome::TooFew);
    }
}
