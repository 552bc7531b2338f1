use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use tokio::time::{Instant, Sleep, sleep_until};

/// Lets a task whose parts wake one another go on at once. The runtime would put the task back into its
/// queue for each such wake, and wake a thread for it.
#[derive(Default)]
pub(super) struct OwnWakes {
    task: AtomicWaker,
    polling: AtomicBool,
    woken: AtomicBool,
}

impl Wake for OwnWakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if !self.polling.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

impl OwnWakes {
    /// Polls the parts, and polls them again if one has woken another meanwhile, a bounded number of times.
    pub(super) fn poll(
        self: &Arc<Self>,
        context: &mut Context<'_>,
        mut parts: impl FnMut(&mut Context<'_>) -> Poll<()>,
    ) -> Poll<()> {
        /// After this many rounds the other tasks get a turn.
        const MAX_ROUNDS: usize = 16;
        self.task.register(context.waker());
        let waker = Waker::from(Arc::clone(self));
        for _ in 0..MAX_ROUNDS {
            self.polling.store(true, Ordering::SeqCst);
            // Swaps, to read too: from here on this task sees all that the wakers wrote before they woke it.
            self.woken.swap(false, Ordering::SeqCst);
            let polled = parts(&mut Context::from_waker(&waker));
            self.polling.store(false, Ordering::SeqCst);
            if polled.is_ready() || !self.woken.load(Ordering::SeqCst) {
                return polled;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// One timer for many limits. It is set again only for an earlier one, and may wake the task early.
pub(super) struct Timer {
    sleep: Pin<Box<Sleep>>,
    set: bool,
}

impl Timer {
    pub(super) fn new() -> Timer {
        Timer { sleep: Box::pin(sleep_until(Instant::now())), set: false }
    }

    /// Waits until `limit`, or until an earlier limit that it was set for.
    pub(super) fn poll_until(&mut self, limit: Instant, context: &mut Context<'_>) -> Poll<()> {
        if !self.set || limit < self.sleep.deadline() {
            self.sleep.as_mut().reset(limit);
            self.set = true;
        }
        let polled = self.sleep.as_mut().poll(context);
        self.set = polled.is_pending();
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls with parts that wake themselves this many times, and keeps their waker.
    fn polled(wakes: &Arc<OwnWakes>, task: &Arc<Counts>, times: usize) -> (usize, Option<Waker>) {
        let (mut rounds, mut kept) = (0, None);
        let waker = Waker::from(Arc::clone(task));
        let _ = wakes.poll(&mut Context::from_waker(&waker), |context| {
            rounds += 1;
            if rounds <= times {
                context.waker().wake_by_ref();
            }
            kept = Some(context.waker().clone());
            Poll::Pending
        });
        (rounds, kept)
    }

    #[test]
    fn a_wake_while_it_is_polled_is_another_round_and_a_later_one_wakes_the_task() {
        let (wakes, task) = (Arc::<OwnWakes>::default(), Arc::<Counts>::default());
        let woken = || task.0.load(Ordering::SeqCst);
        let (rounds, kept) = polled(&wakes, &task, 2);
        assert_eq!((rounds, woken()), (3, 0));
        kept.unwrap().wake();
        assert_eq!(woken(), 1);
        // A task that wakes itself without end gives way.
        let (rounds, _) = polled(&wakes, &task, usize::MAX);
        assert!(rounds < 100 && woken() == 2, "{rounds}");
    }
}
