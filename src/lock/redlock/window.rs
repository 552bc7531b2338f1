use std::time::Duration;

const FIRST: usize = 16;
const SMALLEST: usize = 2;
const LARGEST: usize = 256;

/// How many requests may be on their way to a node at one time. More would wait in the server, and
/// their budget would run there.
///
/// It grows while the node answers within a quarter of the budget, and shrinks when it does
/// not: additive increase and multiplicative decrease, as TCP does it (RFC 5681).
#[derive(Debug)]
pub(super) struct Window {
    size: usize,
    /// An answer that takes longer shrinks it.
    brisk: Duration,
    /// Answers until it may shrink again: those that were on their way say nothing new.
    rest: usize,
}

impl Window {
    pub(super) fn new(budget: Duration) -> Window {
        Window { size: FIRST, brisk: budget / 4, rest: 0 }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Notes how long an answer took, and how many requests were on their way with it.
    pub(super) fn on_answer(&mut self, took: Duration, sent: usize) {
        self.rest = self.rest.saturating_sub(1);
        if took > self.brisk {
            if self.rest == 0 {
                self.size = (self.size / 2).max(SMALLEST);
                self.rest = sent;
            }
        } else if sent >= self.size {
            self.size = (self.size + 1).min(LARGEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Duration = Duration::from_millis(40);

    #[test]
    fn it_grows_while_answers_are_brisk_and_it_is_full() {
        let mut window = Window::new(BUDGET);
        for _ in 0..1000 {
            window.on_answer(BUDGET / 4, window.size() - 1);
        }
        assert_eq!(window.size(), FIRST);
        for _ in 0..1000 {
            window.on_answer(BUDGET / 4, window.size());
        }
        assert_eq!(window.size(), LARGEST);
    }

    #[test]
    fn it_shrinks_once_for_all_that_were_on_their_way() {
        let mut window = Window::new(BUDGET);
        for _ in 0..FIRST {
            window.on_answer(BUDGET, FIRST);
        }
        assert_eq!(window.size(), FIRST / 2);
        for _ in 0..1000 {
            window.on_answer(BUDGET, window.size());
        }
        assert_eq!(window.size(), SMALLEST);
    }
}
