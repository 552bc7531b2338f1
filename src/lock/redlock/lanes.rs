use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Address, Fault, Request};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::answers::Answers;
use super::context::LaneContext;
use super::driver_set::DriverSet;
use super::drivers::Drivers;
use super::node::Node;
use super::send_queue::Job;
use super::submitted::Taker;

/// Time limit for a release that waits behind many others.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// The most requests, without releases, that may wait for a node while the runtime is blocked.
const MAX_SUBMITTED: usize = 100_000;

/// The ways to the nodes. Requests to a node run there in the order in which they were submitted, so that a
/// release never overtakes the acquire that it undoes.
///
/// `submit` never waits, so that you can call it in `drop`. A task of its own, [`Drivers`], owns the sessions, and queues
/// what the nodes can't take yet.
pub(super) struct Lanes {
    nodes: Vec<Arc<dyn Node>>,
    context: Arc<LaneContext>,
    drivers: Arc<Drivers>,
}

impl Lanes {
    pub(super) fn new(nodes: Vec<Arc<dyn Node>>, context: Arc<LaneContext>) -> Lanes {
        Lanes { nodes, context, drivers: Arc::default() }
    }

    pub(super) fn size(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn name(&self, node: usize) -> &str {
        self.nodes.get(node).map_or("", |node| node.name())
    }

    /// Queues requests, and wakes the task once for all of them. Each is sent within one budget of its node, and the
    /// answer comes within another; a release may take longer. Dropping the answers undoes nothing. Outside of a
    /// runtime only a task that already runs takes requests.
    ///
    /// With `at_once` they may be sent here: that can wake other callers, so hold no lock that they may need.
    pub(super) fn submit(
        &self,
        requests: impl IntoIterator<Item = (Address, Request)>,
        answers: &mut Answers,
        at_once: bool,
    ) {
        let (now, budget) = (Instant::now(), self.context.budget);
        let jobs = requests.into_iter().map(|(to, request)| {
            let is_release = request.is_release();
            let limit = now + if is_release { RELEASE_TIMEOUT.max(budget) } else { budget };
            let slot = answers.slot(to, limit + budget);
            (to.node, Job::new(request, limit, slot, self.context.outstanding.token()))
        });
        let room = MAX_SUBMITTED * self.size();
        let has_room = |job: &Job, waiting| job.is_release() || waiting < room;
        let (runtime, drivers) = (Handle::try_current().ok(), &self.drivers);
        let (mut refused, taker) = drivers.submitted.add(jobs, has_room, runtime.is_some());
        match (taker, runtime) {
            (Taker::Awake, _) => {}
            (Taker::Waits(waker), Some(runtime)) if at_once => {
                if !drivers.run_here(&runtime, &waker) {
                    waker.wake();
                }
            }
            (Taker::Waits(waker), _) => waker.wake(),
            // The first request, or the runtime that ran the task is gone.
            (Taker::Gone, Some(runtime)) => {
                drivers.start(&runtime, || DriverSet::new(&self.nodes, &self.context, runtime.id()))
            }
            // To drop them is an answer.
            (Taker::Gone, None) => refused.clear(),
        }
        refused.iter_mut().for_each(|job| job.answer(Err(Fault::Overloaded)));
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.drivers.submitted.close();
    }
}
