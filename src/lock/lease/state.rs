use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::lock::error::Loss;
use crate::lock::sleep::sleep_until;
use crate::time::{Clock, Time};

/// The state of a lease as this process knows it. An ended lease stays so: each read and each change is one step.
pub struct LeaseState {
    pub(super) clock: Arc<dyn Clock>,
    /// The end of `max_hold`.
    end: Option<Time>,
    now: watch::Sender<Now>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Now {
    /// Held until then, unless it is renewed.
    Until(Time),
    Over(Loss),
}

impl LeaseState {
    pub(super) fn new(
        clock: Arc<dyn Clock>,
        deadline: Time,
        max_hold: Option<Duration>,
    ) -> LeaseState {
        let end = max_hold.map(|most| clock.now() + most);
        let deadline = end.map_or(deadline, |end| deadline.min(end));
        LeaseState { clock, end, now: watch::Sender::new(Now::Until(deadline)) }
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
        let _ = self.change(|deadline| (until > deadline).then_some(Now::Until(until)));
    }

    /// Ends the lease, and returns the reason: another one if it had ended before.
    pub(crate) fn close(&self, loss: Loss) -> Loss {
        self.change(|_| Some(Now::Over(loss))).err().unwrap_or(loss)
    }

    pub(super) async fn over(&self) -> Loss {
        let mut changes = self.now.subscribe();
        loop {
            changes.mark_unchanged();
            let deadline = match self.deadline() {
                Ok(deadline) => deadline,
                Err(loss) => return loss,
            };
            tokio::select! {
                biased;
                // The sender is `self`: it is not dropped meanwhile.
                _ = changes.changed() => {}
                () = sleep_until(&*self.clock, deadline) => {}
            }
        }
    }

    /// Changes the state of a lease that is not over, in one step, and returns the state
    /// then. A deadline that has passed ends it first.
    fn change(&self, next: impl FnOnce(Time) -> Option<Now>) -> Result<Time, Loss> {
        // Read outside of the step, as the clock may be the caller's code. That is early enough: a
        // lease that was reported as over is noted as over, and nothing revives it.
        let time = self.clock.now();
        let mut state = Err(Loss::Expired);
        self.now.send_if_modified(|now| {
            let changed = match *now {
                Now::Over(_) => None,
                Now::Until(deadline) if time < deadline => next(deadline),
                Now::Until(deadline) if self.is_last(deadline) => Some(Now::Over(Loss::MaxHold)),
                Now::Until(_) => Some(Now::Over(Loss::Expired)),
            };
            *now = changed.unwrap_or(*now);
            state = match *now {
                Now::Until(deadline) => Ok(deadline),
                Now::Over(loss) => Err(loss),
            };
            changed.is_some()
        });
        state
    }
}
