use std::future::poll_fn;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::FutureExt;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use scopeguard::guard;
use tokio::runtime::{Handle, Id};
use tokio::task::coop::unconstrained;

use super::answers::Woken;
use super::context::LaneContext;
use super::driver::Driver;
use super::node::Node;
use super::send_queue::Job;

/// The room that is kept for jobs: a burst needs more.
const KEPT_ROOM: usize = 1024;

/// The drivers of all nodes, and what was submitted to them. One task runs them all: an attempt that asks five nodes
/// wakes one task, and not five. A caller that submits may run the drivers in the task's place.
#[derive(Default)]
pub(super) struct Drivers {
    pub(super) submitted: Submitted,
    /// `None` where no task runs.
    set: Mutex<Option<DriverSet>>,
}

impl Drivers {
    /// Starts the task in this runtime, with a driver for each node.
    pub(super) fn start(self: &Arc<Self>, runtime: &Handle, nodes: &[Arc<dyn Node>], context: &Arc<LaneContext>) {
        // Dropped, with its runtime perhaps, the task drops them: the next request starts another.
        let task = guard(Arc::clone(self), |drivers| {
            let set = drivers.set.lock().take();
            // Not under the lock: this may run code of the callers.
            drop(set);
            drivers.submitted.abandon();
        });
        let set = DriverSet::new(nodes, context, runtime.id());
        *self.set.lock() = Some(set);
        runtime.spawn(async move { task.run().await });
    }

    /// Sends in place of the task what was submitted, if the nodes are quiet: that spares the way to another thread.
    /// `waker` is the task's. Returns whether it did.
    pub(super) fn run_here(&self, runtime: &Handle, waker: &Waker) -> bool {
        // The callers are woken last, when the set is free: they will send here themselves.
        let mut woken = Vec::new();
        let Some(mut set) = self.set.try_lock() else { return false };
        // In another runtime, what a session starts would end with that one. Another task may have come since.
        let is_fit = |set: &&mut DriverSet| set.runtime == runtime.id() && set.is_run_by(waker) && set.is_quiet();
        let Some(set) = set.as_mut().filter(is_fit) else { return false };
        let polled = unconstrained(poll_fn(|context| set.poll(context, &self.submitted, &mut woken)));
        let polled = pin!(AssertUnwindSafe(polled).catch_unwind());
        let panicked = matches!(polled.poll(&mut Context::from_waker(waker)), Poll::Ready(Err(_)));
        // A panic must surface in the task, not in a caller.
        if panicked {
            set.each.iter().for_each(|(_, waker)| waker.wake_by_ref());
        }
        !panicked
    }

    /// Runs until the lanes are gone and nothing is in flight. The runtime's cooperative budget does not bound it: it
    /// must see answers that have come before it gives up requests that seem late. Each driver's window bounds a poll.
    async fn run(&self) {
        let Drivers { submitted, set } = self;
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

/// The drivers of all nodes as one state machine, which polls those that were woken.
struct DriverSet {
    each: Vec<(Driver, Arc<DriverWaker>)>,
    task: Arc<AtomicWaker>,
    /// The task's own waker.
    run_by: Option<Waker>,
    /// The runtime of its timers and connections.
    runtime: Id,
    /// Empty between two polls: its memory serves again.
    jobs: Vec<(usize, Job)>,
    has_yielded: bool,
}

/// Marks a driver for polling, and wakes the task.
struct DriverWaker {
    is_due: AtomicBool,
    task: Arc<AtomicWaker>,
}

impl DriverSet {
    /// Makes a driver for each node, in the runtime that is current.
    fn new(nodes: &[Arc<dyn Node>], context: &Arc<LaneContext>, runtime: Id) -> DriverSet {
        let task = Arc::<AtomicWaker>::default();
        let driver = |(number, node)| {
            let driver = Driver::new(number, Arc::clone(node), Arc::clone(context));
            let waker = DriverWaker { is_due: AtomicBool::new(false), task: Arc::clone(&task) };
            (driver, Arc::new(waker))
        };
        let each = nodes.iter().enumerate().map(driver).collect();
        DriverSet { each, task, run_by: None, runtime, jobs: Vec::new(), has_yielded: false }
    }

    fn run_by(&mut self, waker: &Waker) {
        if !self.is_run_by(waker) {
            self.run_by = Some(waker.clone());
        }
        self.task.register(waker);
    }

    fn is_run_by(&self, waker: &Waker) -> bool {
        self.run_by.as_ref().is_some_and(|own| own.will_wake(waker))
    }

    fn is_quiet(&self) -> bool {
        self.each.iter().all(|(driver, _)| driver.is_quiet())
    }

    /// Reports whether to let others submit more, because nodes are busy: once before each poll.
    fn yields(&mut self, submitted: &Submitted) -> bool {
        let is_busy = self.each.iter().any(|(driver, _)| driver.is_busy());
        self.has_yielded = is_busy && !self.has_yielded && submitted.has_jobs();
        self.has_yielded
    }

    /// Sends submitted jobs and takes answers. `Ready` when submissions have ended. Clearing `woken` wakes the callers.
    fn poll(&mut self, context: &mut Context<'_>, submitted: &Submitted, woken: &mut Vec<Woken>) -> Poll<()> {
        let closed = submitted.poll_take(context, &mut self.jobs).is_ready();
        for (node, job) in self.jobs.drain(..) {
            if let Some((driver, waker)) = self.each.get_mut(node) {
                driver.waiting.push(job);
                waker.is_due.store(true, Ordering::Release);
            }
        }
        self.jobs.shrink_to(KEPT_ROOM);
        let mut is_idle = true;
        for (driver, waker) in &mut self.each {
            if waker.is_due.swap(false, Ordering::AcqRel) {
                driver.poll(&mut Context::from_waker(&Waker::from(Arc::clone(waker))), woken);
            }
            is_idle &= driver.is_idle();
        }
        if closed && is_idle { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Wake for DriverWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        self.task.wake();
    }
}

/// Requests submitted to the nodes, and not taken yet.
#[derive(Default)]
pub(super) struct Submitted(Mutex<SubmittedState>);

#[derive(Default)]
struct SubmittedState {
    /// Each with the number of its node.
    jobs: Vec<(usize, Job)>,
    taker: Taker,
    closed: bool,
}

/// The task that takes the jobs.
#[derive(Default)]
pub(super) enum Taker {
    #[default]
    Gone,
    Awake,
    Waits(Waker),
}

impl Submitted {
    /// Adds jobs. Returns those that `has_room` refuses, given the number of waiting jobs, and the task's previous
    /// state, so that the caller wakes or starts it. If no task runs and `can_start` is false, all jobs come back.
    pub(super) fn add(
        &self,
        jobs: impl Iterator<Item = (usize, Job)>,
        has_room: impl Fn(&Job, usize) -> bool,
        can_start: bool,
    ) -> (Vec<Job>, Taker) {
        let mut refused = Vec::new();
        let mut state = self.0.lock();
        let is_taken = can_start || !matches!(state.taker, Taker::Gone);
        for (node, job) in jobs {
            if is_taken && has_room(&job, state.jobs.len()) {
                state.jobs.push((node, job));
            } else {
                refused.push(job);
            }
        }
        let next = if is_taken { Taker::Awake } else { Taker::Gone };
        (refused, mem::replace(&mut state.taker, next))
    }

    pub(super) fn close(&self) {
        let mut state = self.0.lock();
        state.closed = true;
        if let Taker::Waits(waker) = mem::replace(&mut state.taker, Taker::Awake) {
            drop(state);
            waker.wake();
        }
    }

    pub(super) fn has_jobs(&self) -> bool {
        !self.0.lock().jobs.is_empty()
    }

    /// Exchanges the submitted jobs for the empty `jobs`. `Ready` after the end of submissions.
    pub(super) fn poll_take(&self, context: &Context<'_>, jobs: &mut Vec<(usize, Job)>) -> Poll<()> {
        let mut state = self.0.lock();
        mem::swap(&mut state.jobs, jobs);
        state.taker = Taker::Waits(context.waker().clone());
        if state.closed { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Notes that no task takes the jobs, and drops them.
    pub(super) fn abandon(&self) {
        let jobs = {
            let mut state = self.0.lock();
            state.taker = Taker::Gone;
            mem::take(&mut state.jobs)
        };
        // Not under the lock: this may run code of the callers.
        drop(jobs);
    }
}
