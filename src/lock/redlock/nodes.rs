use std::collections::BTreeMap;
use std::iter::from_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use fencing_protocol::{Address, ClientId, Fault, Fleet, Machine, Nonce, Request, Side, StartOrder, majority};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use super::answers::Answers;
use super::context::{DistinctServers, LaneContext};
use super::driver::ANSWER_TIMEOUT;
use super::drivers::{Drivers, Taker};
use super::node::Node;
use super::send_queue::Job;
use crate::lock::error::NodeCause;
use crate::lock::settings::Settings;
use crate::lock::wait::release_notifications::{ReleaseNotifications, Source};
use crate::lock::wait::subscriptions::Notifies;
use crate::random;
use crate::time::Clock;

/// The most attempts in progress. Others wait before they ask any node: no vote may grow old while another is awaited.
const MAX_ATTEMPTS: u32 = 128;

/// How long a release may take that waits behind many others.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the cause of a failed re-admission is current: each request to the node starts another try.
const BLOCKED_FOR: Duration = Duration::from_secs(45);

/// How many requests, without releases, may wait for a node while the runtime is stuck.
const MAX_SUBMITTED: usize = 100_000;

/// The nodes of one lock service, and what all of its clones share.
///
/// Requests to a node run there in the order in which they were submitted, so that a release never overtakes the
/// acquire that it undoes. [`submit`](Nodes::submit) never waits, so that you can call it in `drop`: a task,
/// [`Drivers`], owns the sessions, and queues what the nodes can't take yet.
#[derive(derive_more::Debug)]
#[debug("Nodes({})", context.fleet)]
pub struct Nodes {
    nodes: Vec<Arc<dyn Node>>,
    drivers: Arc<Drivers>,
    pub(super) context: Arc<LaneContext>,
    pub(super) clock: Arc<dyn Clock>,
    start_rules: StartRules,
    /// The attempts that may ask the nodes now.
    attempts: Semaphore,
    /// The permits that an attempt takes: more where this client was late with its attempts.
    permits_each: AtomicU32,
    /// The longest that a lock of this client may stay on a node, in milliseconds.
    longest: AtomicU64,
    /// The cause of the last failed re-admission of a node, and its time.
    blocked: Mutex<BTreeMap<usize, (Instant, Fault)>>,
}

/// What a client may do if too few nodes remember.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StartRules {
    /// It leaves a new start to an operator.
    pub(super) strict: bool,
    /// The user has declared that no lock can be held if all nodes are blank.
    pub(super) assume_no_locks: bool,
}

impl Nodes {
    pub(super) fn new(nodes: Vec<Arc<dyn Node>>, fleet: Fleet, settings: &Settings, start_rules: StartRules) -> Nodes {
        let (client, budget) = (ClientId(random::u128()), settings.budget());
        let source = |node: &Arc<dyn Node>| {
            let opened = Arc::clone(node);
            Source::new(node.name(), move || opened.listen(client))
        };
        let sources = nodes.iter().map(source).collect();
        let (needed, outstanding) = (majority(nodes.len()), TaskTracker::new());
        let context = Arc::new(LaneContext {
            fleet,
            budget,
            // An attempt asks each node twice at most, and waits for each answer for two budgets.
            distinct_servers: DistinctServers::new(ANSWER_TIMEOUT.max(budget.saturating_mul(4))),
            outstanding,
            client,
            holder: settings.holder.clone().unwrap_or_default(),
            notifications: Arc::new(ReleaseNotifications::new(needed, Notifies::LongestWaiter, sources)),
            in_use: AtomicBool::new(false),
            recoveries: Mutex::default(),
        });
        Nodes {
            nodes,
            drivers: Arc::default(),
            context,
            clock: Arc::clone(&settings.clock),
            start_rules,
            attempts: Semaphore::new(MAX_ATTEMPTS as usize),
            permits_each: AtomicU32::new(1),
            longest: AtomicU64::new(0),
            blocked: Mutex::default(),
        }
    }

    /// Waits until an attempt may ask the nodes, first come, first served. `None` if it may not in time.
    pub(super) async fn permit(&self, limit: Duration) -> Option<SemaphorePermit<'_>> {
        let permits = self.permits_each.load(Ordering::Relaxed);
        timeout(limit, self.attempts.acquire_many(permits)).await.ok()?.ok()
    }

    /// Reports whether this client asked a node too late, or read its answer too late: then it may also have caused the
    /// other faults of the attempt. Requests that were refused before a budget has passed do not count: they would be
    /// refused again.
    pub(super) fn was_late(&self, begin: Instant, faults: &[(usize, Fault)]) -> bool {
        begin.elapsed() >= self.context.budget && faults.iter().any(|(_, it)| it.is_own())
    }

    /// After a late attempt lets fewer attempts run at once, down to one; after a timely one, more.
    pub(super) fn adapt_permits(&self, late: bool) {
        let next = |permits: u32| if late { permits * 2 } else { permits.saturating_sub(1) };
        let next = |permits| Some(next(permits).clamp(1, MAX_ATTEMPTS));
        let _ = self.permits_each.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    pub(super) fn size(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn longest(&self) -> Duration {
        Duration::from_millis(self.longest.load(Ordering::SeqCst))
    }

    /// Notes the duration of locks that this client acquires: a quarantine must be longer.
    pub(super) fn raise_longest(&self, longest: Duration) {
        let longest = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        self.longest.fetch_max(longest, Ordering::SeqCst);
    }

    /// Returns the order to bring a node back, or to start the fleet.
    pub(super) fn start_order(&self) -> StartOrder {
        // The user spoke of the nodes as they were before the first lock.
        let StartRules { strict, mut assume_no_locks } = self.start_rules;
        assume_no_locks &= !self.context.in_use.load(Ordering::Relaxed);
        let (nonce, longest) = (Nonce(random::u128()), self.longest());
        StartOrder { nonce, longest, strict, assume_no_locks }
    }

    /// Notes that a node is admitted: perhaps another client has brought it back.
    pub(super) fn is_back(&self, node: usize) {
        self.blocked.lock().retain(|known, (_, why)| *known != node || matches!(why, Fault::EraAhead(_)));
    }

    /// Notes why a node can't be brought back, or that it can.
    pub(super) fn set_blocked(&self, node: usize, why: Option<Fault>) {
        let mut blocked = self.blocked.lock();
        match why {
            Some(fault) => blocked.insert(node, (Instant::now(), fault)),
            None => blocked.remove(&node),
        };
    }

    pub(super) fn name(&self, node: usize) -> &str {
        self.nodes.get(node).map_or("", |node| node.name())
    }

    /// Makes room for answers. It reads the clock, which may be the caller's code.
    pub(super) fn answers(&self) -> Answers {
        Answers::new(self.size(), &self.clock)
    }

    /// Queues requests, and wakes the task once for all of them. Each is sent within one budget of its node, and the
    /// answer comes within another; a release may take longer. Dropping the answers undoes nothing. Outside of a
    /// runtime only a task that already runs takes requests.
    pub(super) fn submit(&self, requests: impl IntoIterator<Item = (Address, Request)>, answers: &mut Answers) {
        self.queue(requests, answers, |_, waker| waker.wake());
    }

    fn queue(
        &self,
        requests: impl IntoIterator<Item = (Address, Request)>,
        answers: &mut Answers,
        wake: impl FnOnce(Option<&Handle>, Waker),
    ) {
        let (now, budget) = (Instant::now(), self.context.budget);
        let jobs = requests.into_iter().map(|(to, request)| {
            let is_release = request.is_release();
            let limit = now + if is_release { RELEASE_TIMEOUT.max(budget) } else { budget };
            let slot = answers.slot(to, limit + budget);
            (to.node, Job { request, limit, slot, work: Some(self.context.outstanding.token()) })
        });
        let room = MAX_SUBMITTED * self.size();
        let has_room = |job: &Job, waiting| job.request.is_release() || waiting < room;
        let (runtime, drivers) = (Handle::try_current().ok(), &self.drivers);
        let (mut refused, taker) = drivers.submitted.add(jobs, has_room, runtime.is_some());
        match (taker, runtime) {
            (Taker::Awake, _) => {}
            (Taker::Waits(waker), runtime) => wake(runtime.as_ref(), waker),
            // The first request, or the runtime that ran the task is gone.
            (Taker::Gone, Some(runtime)) => drivers.start(&runtime, &self.nodes, &self.context),
            // Dropping a job answers its caller.
            (Taker::Gone, None) => refused.clear(),
        }
        for job in &mut refused {
            job.slot.answer(Err(Fault::Overloaded));
        }
    }

    /// Queues each request for its node.
    pub(super) fn submit_each(&self, requests: impl IntoIterator<Item = (Address, Request)>) -> Answers {
        let mut answers = self.answers();
        self.submit(requests, &mut answers);
        answers
    }

    pub(super) fn submit_all(&self, request: &Request) -> Answers {
        self.submit_each((0..self.size()).map(|node| (node.into(), request.clone())))
    }

    /// Queues what a machine asks first, and sends it here if the nodes are quiet. That can wake other callers: hold no
    /// lock that they may need. [`drive`](Nodes::drive) does the rest.
    pub(super) fn begin(&self, machine: &mut impl Machine) -> Answers {
        let mut answers = self.answers();
        self.queue(from_fn(|| machine.next_request()), &mut answers, |runtime, waker| {
            if !runtime.is_some_and(|runtime| self.drivers.run_here(runtime, &waker)) {
                waker.wake();
            }
        });
        answers
    }

    /// Drives a machine until it has ended, which it has when all answers have come.
    pub(super) async fn drive<M: Machine>(&self, machine: &mut M, answers: Answers) -> Option<M::Outcome> {
        self.drive_from(self, machine, answers).await
    }

    /// Drives a machine that moves a fleet from the old nodes to these.
    pub(super) async fn drive_from<M: Machine>(
        &self,
        old: &Nodes,
        machine: &mut M,
        mut answers: Answers,
    ) -> Option<M::Outcome> {
        loop {
            if let Some(outcome) = machine.outcome(self.clock.now()) {
                return Some(outcome);
            }
            let (from, answer) = answers.next().await?;
            machine.on_reply(from, answer);
            let pause = machine.pause(self.context.budget);
            if !pause.is_zero() {
                sleep(pause).await;
            }
            while let Some((to, request)) = machine.next_request() {
                let list = if to.side == Side::Old { old } else { self };
                list.submit([(to, request)], &mut answers);
            }
        }
    }

    pub(super) fn causes(&self, faults: Vec<(usize, Fault)>) -> Vec<NodeCause> {
        let blocked = self.blocked.lock();
        let cause = |(node, fault)| {
            let known = blocked.get(&node).filter(|(at, why)| match why {
                _ if at.elapsed() > BLOCKED_FOR => false,
                Fault::EraAhead(_) => fault == Fault::Exhausted,
                _ => fault == Fault::NotAdmitted,
            });
            let cause = known.map_or(fault, |(_, why)| why.clone());
            NodeCause { node: self.name(node).to_owned(), cause }
        };
        faults.into_iter().map(cause).collect()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.drivers.submitted.close();
    }
}
