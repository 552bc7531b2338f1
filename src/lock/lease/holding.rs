use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fencing_protocol::{Renewed, Terms};
use parking_lot::Mutex;
use scopeguard::guard;

use super::state::LeaseState;
use super::ticket::LeaseTicket;
use crate::lock::backend::{Grant, HeldLock, SentRelease};
use crate::lock::error::{Loss, NodeCause};
use crate::lock::settings::Settings;
use crate::lock::wait::queues::WaitQueues;
use crate::sequencer::Sequencer;
use crate::time::Time;

/// One held lease: what the lease and its watchdog share.
pub(super) struct Holding {
    /// In the order of the names.
    pub(super) locks: Box<[Sequencer]>,
    /// The one of them that errors and the log name.
    pub(super) first: Sequencer,
    pub(super) state: Arc<LeaseState>,
    held: Arc<dyn HeldLock>,
    queues: Arc<WaitQueues>,
    /// The lock is not free before this, by `lock_at_least_for`.
    closed_until: Time,
    terms: Terms,
    /// Whether another process may have it too, and may have released it.
    has_ticket: AtomicBool,
    /// The failure of the last renewal, if it failed.
    pub(super) failure: Mutex<Vec<NodeCause>>,
}

impl Holding {
    pub(super) fn new(
        Grant { locks, asked, deadline, held }: Grant,
        settings: &Settings,
        queues: Arc<WaitQueues>,
    ) -> Holding {
        let (first, mut locks) = (locks.first().clone(), locks.into_iter().collect::<Box<[_]>>());
        locks.sort_unstable_by(|one, other| one.resource.cmp(&other.resource));
        let state = Arc::new(LeaseState::new(Arc::clone(&settings.clock), deadline, settings.max_hold));
        held.attach_state(&state);
        Holding {
            locks,
            first,
            state,
            held,
            queues,
            closed_until: asked + settings.at_least,
            terms: settings.terms(),
            has_ticket: AtomicBool::new(false),
            failure: Mutex::default(),
        }
    }

    /// Returns the ticket of the lease. From then on this process renews only what is still held, and sends no release
    /// of a lost lease: another process may have released or renewed it.
    pub(super) fn hand_out(&self) -> LeaseTicket {
        let owner = self.held.hand_out();
        self.has_ticket.store(true, Ordering::Relaxed);
        let (sequencer, Terms { ttl, lock_delay, .. }) = (self.first.clone(), self.terms);
        LeaseTicket { sequencer, ttl, lock_delay, owner }
    }

    /// Tries once to renew a lease that has not ended, and returns why it failed. A superseded lease is over then.
    pub(super) async fn renew(&self) -> Result<(), Vec<NodeCause>> {
        if self.state.deadline().is_err() {
            return Err(Vec::new());
        }
        let renewed = self.held.renew(self.has_ticket.load(Ordering::Relaxed)).await;
        match &renewed {
            Ok(Renewed::Until(until)) => self.state.renew(*until),
            Ok(Renewed::Superseded) => drop(self.state.close(Loss::Superseded)),
            // A renewal that fails because the lease was released is not counted.
            Err(_) if self.state.deadline() == Err(Loss::Released) => {}
            Err(_) => metrics::counter!("fencing_renewals_failed_total").increment(1),
        }
        *self.failure.lock() = renewed.as_ref().err().cloned().unwrap_or_default();
        renewed.map(drop)
    }

    /// Sends the release of a lease that ended for this reason; none for a lost lease that another process may have
    /// renewed. If releases keep their order, this wakes the next caller of this process at once; otherwise that caller
    /// is woken when the returned future ends or is dropped.
    pub(super) fn release(self: &Arc<Self>, loss: Loss) -> SentRelease {
        if loss != Loss::Released && self.has_ticket.load(Ordering::Relaxed) {
            self.wake(false);
            return Box::pin(ready(Ok(false)));
        }
        let held = Arc::clone(&self.held);
        let in_order = held.releases_in_order();
        let rest = self.closed_until.since(self.state.clock.now());
        // Never that of several locks: others wait for a part of them.
        let handed_over = in_order
            && loss == Loss::Released
            && rest.is_zero()
            && self.locks.len() == 1
            && self.queues.hands_over(&self.first.resource);
        let released = held.release(rest, handed_over);
        if in_order {
            self.wake(handed_over);
            return released;
        }
        // Also if the future is dropped.
        let wake = guard(Arc::clone(self), |holding| holding.wake(false));
        Box::pin(async move {
            let _wake = wake;
            released.await
        })
    }

    /// Releases without waiting. A lost lease with a lock-delay sends nothing: writes of its holder may be in flight.
    pub(super) fn abandon(self: &Arc<Self>, loss: Loss) {
        if loss != Loss::Released && !self.terms.lock_delay.is_zero() {
            self.wake(false);
        } else {
            drop(self.release(loss));
        }
    }

    pub(super) fn wake(&self, handed_over: bool) {
        self.locks.iter().for_each(|lock| self.queues.wake(&lock.resource, handed_over));
    }
}
