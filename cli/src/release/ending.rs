//! What a release by force came to.

use fencing::lock::redlock::Forced;

/// What the nodes have answered.
#[derive(Clone, Copy)]
pub(super) struct Answers {
    /// On how many the lock was taken.
    pub(super) taken: usize,
    /// How many refuse the holder's renewal now.
    pub(super) noted: usize,
    /// On how many another client holds it, and keeps it.
    pub(super) others: usize,
    /// How many were asked and have not answered: they may have done it.
    silent: usize,
}

/// What it came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Released,
    /// The lock is another client's, or was free already.
    Gone,
    /// Nobody who answered had it any more, and others did not answer.
    Unknown,
    /// The holder may keep it, or what is left of it.
    TooFew,
}

impl Answers {
    pub(super) fn of(forced: &[Forced], silent: usize) -> Answers {
        let count = |which: fn(&Forced) -> bool| forced.iter().filter(|it| which(it)).count();
        let taken = count(|forced| matches!(forced, Forced::Taken(_)));
        let others = count(|forced| *forced == Forced::HeldByAnother);
        Answers { taken, noted: forced.len() - others, others, silent }
    }

    pub(super) fn ending(self, needed: usize) -> Ending {
        if self.others >= needed {
            return Ending::Gone;
        }
        match self.taken {
            0 if self.silent > 0 => Ending::Unknown,
            0 if self.noted + self.others >= needed => Ending::Gone,
            0 => Ending::TooFew,
            _ if self.noted >= needed => Ending::Released,
            _ => Ending::TooFew,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(taken: usize, free: usize, others: usize, silent: usize) -> Ending {
        let of = |forced: Forced, times| std::iter::repeat_n(forced, times);
        let forced = of(Forced::Taken(1), taken)
            .chain(of(Forced::Free, free))
            .chain(of(Forced::HeldByAnother, others));
        Answers::of(&forced.collect::<Vec<_>>(), silent).ending(3)
    }

    #[test]
    fn a_majority_has_released_it_or_refuses_the_holder() {
        assert_eq!(ending(5, 0, 0, 0), Ending::Released);
        assert_eq!(ending(1, 2, 0, 2), Ending::Released);
        assert_eq!(ending(2, 1, 2, 0), Ending::Released);
        assert_eq!(ending(2, 0, 0, 3), Ending::TooFew);
        assert_eq!(ending(2, 0, 2, 1), Ending::TooFew);
    }

    /// What was left of an old lease may be taken from beside it.
    #[test]
    fn another_client_that_has_most_keeps_it() {
        assert_eq!(ending(0, 0, 5, 0), Ending::Gone);
        assert_eq!(ending(2, 0, 3, 0), Ending::Gone);
        assert_eq!(ending(0, 0, 3, 2), Ending::Gone);
    }

    #[test]
    fn who_has_not_answered_may_have_released_it() {
        assert_eq!(ending(0, 5, 0, 0), Ending::Gone);
        assert_eq!(ending(0, 2, 2, 0), Ending::Gone);
        assert_eq!(ending(0, 3, 0, 2), Ending::Unknown);
        assert_eq!(ending(0, 0, 0, 5), Ending::Unknown);
        // All have refused.
        assert_eq!(ending(0, 0, 0, 0), Ending::TooFew);
    }
}
