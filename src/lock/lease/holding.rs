use std::sync::Arc;

use fencing_protocol::NonEmpty;
use parking_lot::Mutex;

use super::held_lock::{HeldLock, Renewed};
use super::state::LeaseState;
use crate::lock::error::Loss;
use crate::lock::error::NodeCause;
use crate::lock::wait::queues::WaitQueues;
use crate::sequencer::Sequencer;

/// One held lease: what the lease and its watchdog share.
pub(super) struct Holding {
    /// In the order of the names.
    pub(super) locks: Box<[Sequencer]>,
    /// The one of them that errors and the log name.
    pub(super) first: Sequencer,
    pub(super) state: Arc<LeaseState>,
    pub(super) held: Arc<dyn HeldLock>,
    /// Why the last renewal failed, if it did.
    failure: Mutex<Vec<NodeCause>>,
}

impl Holding {
    pub(super) fn new(
        locks: NonEmpty<Sequencer>,
        state: Arc<LeaseState>,
        held: Arc<dyn HeldLock>,
    ) -> Holding {
        let (first, mut locks) = (locks.first().clone(), locks.into_iter().collect::<Box<[_]>>());
        locks.sort_unstable_by(|one, other| one.resource.cmp(&other.resource));
        Holding { locks, first, state, held, failure: Mutex::default() }
    }

    /// Reports whether a release is to go to the next caller of this process, and no client elsewhere is to be
    /// notified: never that of several locks, as others wait for a part of them.
    pub(super) fn hands_over(&self, queues: &WaitQueues) -> bool {
        self.locks.len() == 1 && queues.hands_over(&self.first.resource)
    }

    pub(super) fn wake(&self, queues: &WaitQueues, handed_over: bool) {
        self.locks.iter().for_each(|lock| queues.wake(&lock.resource, handed_over));
    }

    /// Returns why the last renewal failed. Empty if none has, or it did not.
    pub(super) fn failure(&self) -> Vec<NodeCause> {
        self.failure.lock().clone()
    }

    /// Tries once to renew. A lease that another has superseded is over then.
    pub(super) async fn renew(&self) -> Renewed {
        let renewed = self.held.renew().await;
        match &renewed {
            Renewed::Until(until) => self.state.renew(*until),
            Renewed::Superseded => drop(self.state.close(Loss::Superseded)),
            // Behind a release it is no failure.
            Renewed::Failed(_) if self.state.deadline() == Err(Loss::Released) => {}
            Renewed::Failed(_) => metrics::counter!("fencing_renewals_failed_total").increment(1),
        }
        let failure =
            if let Renewed::Failed(causes) = &renewed { causes.clone() } else { Vec::new() };
        *self.failure.lock() = failure;
        renewed
    }
}
