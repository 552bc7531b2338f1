use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::coop::unconstrained;

use super::driver_set::DriverSet;
use super::submitted::Submitted;

/// The drivers of all nodes, and what was submitted to them. One task runs them all: an attempt that asks five nodes
/// wakes one task, and not five. Who submits may run them in its place.
#[derive(Default)]
pub(super) struct Drivers {
    pub(super) submitted: Submitted,
    /// `None` where no task runs.
    set: Mutex<Option<DriverSet>>,
}

impl Drivers {
    /// Starts the task in this runtime, with the drivers that `make` makes.
    pub(super) fn start(self: &Arc<Self>, runtime: &Handle, make: impl FnOnce() -> DriverSet) {
        let task = DriversTask(Arc::clone(self));
        let set = make();
        *self.set.lock() = Some(set);
        runtime.spawn(task.run());
    }

    /// Sends in place of the task what was submitted, if the nodes are quiet: that spares the way to another thread.
    /// `waker` is the task's. Returns whether it did.
    pub(super) fn run_here(&self, runtime: &Handle, waker: &Waker) -> bool {
        // The callers are woken last, when the set is free: they will send here themselves.
        let mut woken = Vec::new();
        let Some(mut set) = self.set.try_lock() else { return false };
        // In another runtime, what a session starts would end with that one. Another task may have come since.
        let is_fit = |set: &&mut DriverSet| set.runtime() == runtime.id() && set.is_run_by(waker) && set.is_quiet();
        let Some(set) = set.as_mut().filter(is_fit) else { return false };
        let polled = unconstrained(poll_fn(|context| set.poll(context, &self.submitted, &mut woken)));
        let polled = pin!(AssertUnwindSafe(polled).catch_unwind());
        let panicked = matches!(polled.poll(&mut Context::from_waker(waker)), Poll::Ready(Err(_)));
        // A panic is the task's to have, and no caller's.
        if panicked {
            set.wake_all();
        }
        !panicked
    }
}

/// The task of the drivers. Dropped, with its runtime perhaps, it drops them: the next request starts another.
struct DriversTask(Arc<Drivers>);

impl DriversTask {
    /// Runs until the lanes are gone and nothing is in flight. The runtime's cooperative budget does not
    /// bound it: it must see answers that have come before it gives up requests that seem late. The window
    /// of each driver bounds its work in one poll.
    async fn run(self) {
        let Drivers { submitted, set } = &*self.0;
        let mut woken = Vec::new();
        let poll = |context: &mut Context<'_>| {
            let mut guard = set.lock();
            let Some(set) = guard.as_mut() else { return Poll::Ready(()) };
            // While nodes are busy, the other tasks get a turn first: what they submit goes in the same call.
            if set.yields(submitted) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            set.run_by(context.waker());
            let polled = set.poll(context, submitted, &mut woken);
            drop(guard);
            // They find the set free, and send there themselves.
            woken.clear();
            polled
        };
        unconstrained(poll_fn(poll)).await;
    }
}

impl Drop for DriversTask {
    fn drop(&mut self) {
        let set = self.0.set.lock().take();
        // Not under the lock: this may run code of the callers.
        drop(set);
        self.0.submitted.abandon();
    }
}
