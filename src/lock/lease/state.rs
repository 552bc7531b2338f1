use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::lock::error::Loss;
use crate::lock::runtime::sleep_until;
use crate::time::{Clock, Time};

/// The state of a lease as this process knows it. An ended lease stays so: each read and each change is one step.
pub struct LeaseState {
    pub(super) clock: Arc<dyn Clock>,
    /// The end of `max_hold`.
    end: Option<Time>,
    /// The deadline, unless it is renewed; or why the lease is over.
    deadline: Mutex<Result<Time, Loss>>,
    /// Notifies waiters for the end. A renewal wakes none.
    ended: Notify,
}

impl LeaseState {
    pub(super) fn new(clock: Arc<dyn Clock>, deadline: Time, max_hold: Option<Duration>) -> LeaseState {
        let end = max_hold.map(|most| clock.now() + most);
        let deadline = end.map_or(deadline, |end| deadline.min(end));
        LeaseState { clock, end, deadline: Mutex::new(Ok(deadline)), ended: Notify::new() }
    }

    pub(super) fn deadline(&self) -> Result<Time, Loss> {
        self.change(|_| None)
    }

    pub(super) fn valid_for(&self) -> Duration {
        self.deadline().map_or(Duration::ZERO, |deadline| deadline.since(self.clock.now()))
    }

    /// Reports whether `deadline` is the last one: no renewal leads beyond it.
    pub(super) fn is_last(&self, deadline: Time) -> bool {
        self.end.is_some_and(|end| deadline >= end)
    }

    /// Notes a renewal. It revives no ended lease, and shortens none.
    pub(super) fn renew(&self, until: Time) {
        let until = self.end.map_or(until, |end| until.min(end));
        let _ = self.change(|deadline| (until > deadline).then_some(Ok(until)));
    }

    /// Ends the lease, and returns the reason: another one if it had ended before.
    pub(crate) fn close(&self, loss: Loss) -> Loss {
        self.change(|_| Some(Err(loss))).err().unwrap_or(loss)
    }

    pub(super) async fn over(&self) -> Loss {
        loop {
            // Made before the look: an end that comes after it is not missed.
            let ended = self.ended.notified();
            let deadline = match self.deadline() {
                Ok(deadline) => deadline,
                Err(loss) => return loss,
            };
            tokio::select! {
                biased;
                () = ended => {}
                () = sleep_until(&*self.clock, deadline) => {}
            }
        }
    }

    /// Changes the state in one step, if the lease is not over, and returns it. A passed deadline ends the lease first.
    fn change(&self, next: impl FnOnce(Time) -> Option<Result<Time, Loss>>) -> Result<Time, Loss> {
        // Read outside of the step, as the clock may be the caller's code. That is early enough: a
        // lease that was reported as over is noted as over, and nothing revives it.
        let now = self.clock.now();
        let mut known = self.deadline.lock();
        let changed = match *known {
            Err(_) => None,
            Ok(deadline) if now < deadline => next(deadline),
            Ok(deadline) if self.is_last(deadline) => Some(Err(Loss::MaxHold)),
            Ok(_) => Some(Err(Loss::Expired)),
        };
        let state = changed.unwrap_or(*known);
        *known = state;
        drop(known);
        if changed.is_some() && state.is_err() {
            self.ended.notify_waiters();
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use tokio::time::sleep;

    use super::*;
    use crate::time::ManualClock;

    const TTL: Duration = Duration::from_secs(30);

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A renewal wakes nobody who waits for the end, and the end wakes them all.
    #[tokio::test(start_paused = true)]
    async fn only_the_end_wakes_those_who_wait_for_it() {
        let clock = ManualClock::default();
        let deadline = clock.now() + TTL;
        let state = LeaseState::new(Arc::new(clock.clone()), deadline, None);
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(Arc::clone(&wakes));
        let context = &mut Context::from_waker(&waker);
        let mut waiting = [Box::pin(state.over()), Box::pin(state.over())];
        assert!(waiting.iter_mut().all(|it| it.as_mut().poll(context).is_pending()));
        state.renew(deadline + TTL);
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
        state.close(Loss::Superseded);
        assert_eq!(wakes.0.load(Ordering::SeqCst), 2);
        for it in &mut waiting {
            assert_eq!(it.as_mut().poll(context), Poll::Ready(Loss::Superseded));
        }
    }

    /// One who waits sleeps until the deadline that it saw, and looks again then.
    #[tokio::test(start_paused = true)]
    async fn a_renewed_lease_is_over_at_its_last_deadline() {
        let clock = ManualClock::default();
        let first = clock.now() + TTL;
        let state = LeaseState::new(Arc::new(clock.clone()), first, None);
        let mut over = pin!(state.over());
        for _ in 0..2 {
            let context = &mut Context::from_waker(Waker::noop());
            assert!(over.as_mut().poll(context).is_pending());
            state.renew(first + TTL);
            clock.advance(TTL);
            sleep(TTL).await;
        }
        assert_eq!(over.await, Loss::Expired);
    }
}
