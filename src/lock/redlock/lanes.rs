use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Address, Fault, Request};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::answers::Answers;
use super::context::LaneContext;
use super::drivers::Drivers;
use super::node::Node;
use super::send_queue::Job;
use super::submitted::Submitted;

/// How long a release may take that waits behind many others.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// How many requests, without releases, may wait for a node while the runtime is stuck.
const MAX_SUBMITTED: usize = 100_000;

/// The ways to the nodes. Requests to a node run there in the order in which they were submitted, so that a
/// release never overtakes the acquire that it undoes.
///
/// `submit` never waits, so that you can call it in `drop`. A task of its own, [`Drivers`], owns the sessions, and queues
/// what the nodes can't take yet.
pub(super) struct Lanes {
    nodes: Vec<Arc<dyn Node>>,
    context: Arc<LaneContext>,
    submitted: Arc<Submitted>,
}

impl Lanes {
    pub(super) fn new(nodes: Vec<Arc<dyn Node>>, context: Arc<LaneContext>) -> Lanes {
        Lanes { nodes, context, submitted: Arc::default() }
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
    pub(super) fn submit(
        &self,
        requests: impl IntoIterator<Item = (Address, Request)>,
        answers: &mut Answers,
    ) {
        let (now, budget) = (Instant::now(), self.context.budget);
        let jobs = requests.into_iter().map(|(to, request)| {
            let is_release = request.is_release();
            let limit = now + if is_release { RELEASE_TIMEOUT.max(budget) } else { budget };
            let slot = answers.slot(to, limit + budget);
            (to.node, Job::new(request, limit, slot, self.context.outstanding.token()))
        });
        let room = MAX_SUBMITTED * self.size();
        let (mut refused, is_first) =
            self.submitted.add(jobs, |job, waiting| job.is_release() || waiting < room);
        refused.iter_mut().for_each(|job| job.answer(Err(Fault::Overloaded)));
        // It is the first request, or the runtime that ran the task is gone.
        if is_first {
            match Handle::try_current() {
                Ok(runtime) => {
                    let drivers = Drivers::new(&self.nodes, &self.context, &self.submitted);
                    runtime.spawn(drivers.run());
                }
                Err(_) => self.submitted.abandon(),
            }
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.submitted.close();
    }
}
