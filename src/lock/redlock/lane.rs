use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fencing_protocol::{Address, Fault, Request};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::answers::Answers;
use super::context::LaneContext;
use super::driver::Driver;
use super::node::Node;
use super::send_queue::Job;

/// How long a release may take that waits behind many others.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// How many requests, without releases, may wait for a lane while its runtime is stuck.
const MAX_QUEUED: usize = 100_000;

/// The way to one node. Requests run there in the order in which they were submitted, so that a
/// release never overtakes the acquire that it undoes.
///
/// `submit` never waits, so that you can call it in `drop`. A task of its own, the [`Driver`], owns
/// the session, and queues what the node can't take yet.
pub(super) struct Lane {
    number: usize,
    node: Arc<dyn Node>,
    context: Arc<LaneContext>,
    running: Mutex<Option<DriverHandle>>,
}

/// The way to a driver, and how many jobs wait for it. Each driver has a count of its own, because
/// several first submissions may come at one time.
struct DriverHandle {
    jobs: mpsc::UnboundedSender<Job>,
    queued: Arc<AtomicUsize>,
}

impl DriverHandle {
    /// Sends the job, or returns it if the driver is gone.
    fn send(&self, mut job: Job) -> Result<(), Job> {
        let queued = self.queued.fetch_add(1, Ordering::Relaxed);
        if queued >= MAX_QUEUED && !job.is_release() {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            job.answer(Err(Fault::Overloaded));
            return Ok(());
        }
        self.jobs.send(job).map_err(|unsent| unsent.0)
    }
}

impl Lane {
    pub(super) fn new(number: usize, node: Arc<dyn Node>, context: Arc<LaneContext>) -> Lane {
        Lane { number, node, context, running: Mutex::default() }
    }

    pub(super) fn name(&self) -> &str {
        self.node.name()
    }

    /// Queues a request. It is sent within one budget of the node, and the answer comes within another;
    /// a release may take longer. Dropping the answers undoes nothing. Outside of a runtime only a lane
    /// that already runs takes requests.
    pub(super) fn submit(&self, to: Address, request: Request, answers: &mut Answers) {
        let (budget, release) = (self.context.budget, request.is_release());
        let rest = if release { RELEASE_TIMEOUT.max(budget) } else { budget };
        let limit = Instant::now() + rest;
        let slot = answers.slot(to, limit + budget);
        let mut job = Job::new(request, limit, slot, self.context.outstanding.token());
        let mut running = self.running.lock();
        if let Some(running) = running.as_ref() {
            match running.send(job) {
                Ok(()) => return,
                Err(unsent) => job = unsent,
            }
        }
        // The first request, or the runtime that ran the lane is gone.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (jobs, receiver) = mpsc::unbounded_channel();
            let new = DriverHandle { jobs, queued: Arc::default() };
            let (node, context) = (Arc::clone(&self.node), Arc::clone(&self.context));
            let driver = Driver::new(self.number, node, context, Arc::clone(&new.queued));
            runtime.spawn(driver.run(receiver));
            let _ = new.send(job);
            *running = Some(new);
        }
    }
}
