use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::sleep::sleep_until;
use crate::time::{Clock, Time};

/// Why a lease is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// Its deadline passed without a renewal.
    #[error("the lease expired")]
    Expired,
    /// Another client has acquired the resource since, or the lock was removed.
    #[error("another client has acquired the resource since")]
    Superseded,
    /// It was held for as long as `max_hold` allows.
    #[error("the lease reached its longest hold")]
    MaxHold,
    /// It was released.
    #[error("the lease was released")]
    Released,
}

/// Where a lease stands, as far as this process can tell. A lease that is over stays so.
pub(super) struct Standing {
    clock: Arc<dyn Clock>,
    /// When `max_hold` is reached.
    end: Option<Time>,
    now: watch::Sender<Now>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Now {
    /// Held until then, unless it is renewed.
    Until(Time),
    Over(Loss),
}

impl Standing {
    pub(super) fn new(
        clock: Arc<dyn Clock>,
        deadline: Time,
        max_hold: Option<Duration>,
    ) -> Standing {
        let end = max_hold.map(|most| clock.now() + most);
        let deadline = end.map_or(deadline, |end| deadline.min(end));
        Standing { clock, end, now: watch::Sender::new(Now::Until(deadline)) }
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Returns when the lease ends, or why it is over. A deadline may have passed by now: see
    /// [`loss`](Standing::loss).
    pub(super) fn deadline(&self) -> Result<Time, Loss> {
        match *self.now.borrow() {
            Now::Until(deadline) => Ok(deadline),
            Now::Over(loss) => Err(loss),
        }
    }

    /// Returns why the lease is over, also if nobody has said so yet.
    pub(super) fn loss(&self) -> Option<Loss> {
        match self.deadline() {
            Ok(deadline) if self.clock.now() < deadline => None,
            Ok(deadline) => Some(self.loss_at(deadline)),
            Err(loss) => Some(loss),
        }
    }

    pub(super) fn valid_for(&self) -> Duration {
        self.deadline().map_or(Duration::ZERO, |deadline| deadline.since(self.clock.now()))
    }

    /// Reports whether `deadline` is the last one: no renewal leads beyond it.
    pub(super) fn is_last(&self, deadline: Time) -> bool {
        self.end.is_some_and(|end| deadline >= end)
    }

    /// Returns why a lease ends at its deadline.
    pub(super) fn loss_at(&self, deadline: Time) -> Loss {
        if self.is_last(deadline) { Loss::MaxHold } else { Loss::Expired }
    }

    /// Notes a renewal that was asked for under `deadline`. A lease that has lapsed meanwhile
    /// is never revived, and no renewal shortens a lease.
    pub(super) fn renew(&self, deadline: Time, until: Time) {
        let until = self.end.map_or(until, |end| until.min(end));
        if self.clock.now() < deadline {
            self.set(Now::Until(until.max(deadline)));
        }
    }

    /// Ends the lease. Returns false if it is over already: it stays as it is then.
    pub(super) fn close(&self, loss: Loss) -> bool {
        self.set(Now::Over(loss))
    }

    fn set(&self, next: Now) -> bool {
        self.now.send_if_modified(|now| {
            let held = matches!(now, Now::Until(_));
            if held {
                *now = next;
            }
            held
        })
    }

    /// Waits until the lease is over.
    pub(super) async fn over(&self) -> Loss {
        let mut changes = self.now.subscribe();
        loop {
            let now = *changes.borrow_and_update();
            let deadline = match now {
                Now::Over(loss) => return loss,
                Now::Until(deadline) => deadline,
            };
            tokio::select! {
                biased;
                // The sender is `self`: it is not dropped meanwhile.
                _ = changes.changed() => {}
                () = sleep_until(&*self.clock, deadline) => {
                    // A renewal may have come at the last moment.
                    if *changes.borrow() == now {
                        return self.loss_at(deadline);
                    }
                }
            }
        }
    }
}
