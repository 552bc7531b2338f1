use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use tokio::runtime::Id;

use super::answers::Woken;
use super::context::LaneContext;
use super::driver::Driver;
use super::node::Node;
use super::send_queue::Job;
use super::submitted::Submitted;

/// The room that is kept for jobs: a burst needs more.
const KEPT_ROOM: usize = 1024;

/// The drivers of all nodes as one state machine, which polls those that were woken.
pub(super) struct DriverSet {
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
    pub(super) fn new(nodes: &[Arc<dyn Node>], context: &Arc<LaneContext>, runtime: Id) -> DriverSet {
        let task = Arc::<AtomicWaker>::default();
        let driver = |(number, node)| {
            let driver = Driver::new(number, Arc::clone(node), Arc::clone(context));
            let waker = DriverWaker { is_due: AtomicBool::new(false), task: Arc::clone(&task) };
            (driver, Arc::new(waker))
        };
        let each = nodes.iter().enumerate().map(driver).collect();
        DriverSet { each, task, run_by: None, runtime, jobs: Vec::new(), has_yielded: false }
    }

    pub(super) fn runtime(&self) -> Id {
        self.runtime
    }

    /// Notes the waker of the task that runs it.
    pub(super) fn run_by(&mut self, waker: &Waker) {
        if !self.is_run_by(waker) {
            self.run_by = Some(waker.clone());
        }
        self.task.register(waker);
    }

    /// Reports whether this is the waker of the task that runs it.
    pub(super) fn is_run_by(&self, waker: &Waker) -> bool {
        self.run_by.as_ref().is_some_and(|own| own.will_wake(waker))
    }

    /// Has all drivers polled next time.
    pub(super) fn wake_all(&self) {
        self.each.iter().for_each(|(_, waker)| waker.wake_by_ref());
    }

    /// Reports whether all nodes can take a request at once.
    pub(super) fn is_quiet(&self) -> bool {
        self.each.iter().all(|(driver, _)| driver.is_quiet())
    }

    /// Reports whether to let others submit more, because nodes are busy: once before each poll.
    pub(super) fn yields(&mut self, submitted: &Submitted) -> bool {
        let is_busy = self.each.iter().any(|(driver, _)| driver.is_busy());
        self.has_yielded = is_busy && !self.has_yielded && submitted.has_jobs();
        self.has_yielded
    }

    /// Sends submitted jobs, and takes answers. `Ready` after the end of submissions. The callers are not woken
    /// before `woken` is cleared.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        submitted: &Submitted,
        woken: &mut Vec<Woken>,
    ) -> Poll<()> {
        let closed = submitted.poll_take(context, &mut self.jobs).is_ready();
        for (node, job) in self.jobs.drain(..) {
            if let Some((driver, waker)) = self.each.get_mut(node) {
                driver.push(job);
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
