use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use tokio::task::coop::unconstrained;

use super::context::LaneContext;
use super::driver::Driver;
use super::node::Node;
use super::send_queue::Job;
use super::submitted::Submitted;

/// The room that is kept for jobs: a burst needs more.
const KEPT_ROOM: usize = 1024;

/// The drivers of all nodes, in one task: an attempt that asks five nodes wakes one task, and not five.
pub(super) struct Drivers {
    each: Vec<(Driver, Arc<DriverWaker>)>,
    task: Arc<AtomicWaker>,
    submitted: Arc<Submitted>,
    /// Empty between two polls: its memory serves again.
    jobs: Vec<(usize, Job)>,
    /// The last poll did nothing, so that the other tasks had a turn.
    has_yielded: bool,
}

/// Notes that a driver is to be polled.
struct DriverWaker {
    is_due: AtomicBool,
    task: Arc<AtomicWaker>,
}

impl Drivers {
    pub(super) fn new(
        nodes: &[Arc<dyn Node>],
        context: &Arc<LaneContext>,
        submitted: &Arc<Submitted>,
    ) -> Drivers {
        let task = Arc::<AtomicWaker>::default();
        let driver = |(number, node)| {
            let driver = Driver::new(number, Arc::clone(node), Arc::clone(context));
            let waker = DriverWaker { is_due: AtomicBool::new(false), task: Arc::clone(&task) };
            (driver, Arc::new(waker))
        };
        let each = nodes.iter().enumerate().map(driver).collect();
        let submitted = Arc::clone(submitted);
        Drivers { each, task, submitted, jobs: Vec::new(), has_yielded: false }
    }

    /// Runs until the lanes are gone and nothing is on its way. The runtime's cooperative budget
    /// does not bound it: it must see answers that have come before it gives up requests that seem late. The
    /// window of each driver bounds how much it does at one time.
    pub(super) async fn run(mut self) {
        unconstrained(poll_fn(|context| self.poll(context))).await;
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.task.register(context.waker());
        // While nodes are busy, the other tasks get a turn first: what they submit goes in the same call.
        let is_busy = self.each.iter().any(|(driver, _)| driver.is_busy());
        self.has_yielded = is_busy && !self.has_yielded && self.submitted.has_jobs();
        if self.has_yielded {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let closed = self.submitted.poll_take(context, &mut self.jobs).is_ready();
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
                driver.poll(&mut Context::from_waker(&Waker::from(Arc::clone(waker))));
            }
            is_idle &= driver.is_idle();
        }
        if closed && is_idle { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Drivers {
    fn drop(&mut self) {
        self.submitted.abandon();
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
