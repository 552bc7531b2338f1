use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument;

use super::distinct_servers::DistinctServers;
use super::node::{Node, Session};
use super::notices::{Notice, Notices};
use super::outstanding::{Outstanding, OutstandingWork};
use crate::protocol::{Fault, Fleet, Reply, Request};

/// How long a session that does not answer is kept before a new one is opened.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// The longest pause between two attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How many requests may wait for a lane that its runtime does not drive.
const MOST_QUEUED: usize = 100_000;

/// The way to one node. Requests run there in the order in which they were submitted, so that a
/// release never overtakes the acquire that it undoes.
///
/// `submit` never waits, so that you can call it in `drop`. A task of its own owns the
/// session, bounds every answer by the node budget, and sends nothing but releases to a
/// node that owes an answer.
pub(super) struct Lane {
    number: usize,
    node: Arc<dyn Node>,
    shared: Shared,
    running: Mutex<Option<Running>>,
}

/// The way to a driver, and how many jobs wait for it. Each driver has a count of its own, because
/// several first submissions may come at one time.
struct Running {
    jobs: mpsc::UnboundedSender<Job>,
    queued: Arc<AtomicUsize>,
}

impl Running {
    /// Sends the job, or returns it if the driver is gone.
    fn send(&self, job: Job) -> Result<(), Job> {
        if self.queued.fetch_add(1, Ordering::Relaxed) >= MOST_QUEUED {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            let _ = job.reply.send(Err(Fault::TimedOut));
            return Ok(());
        }
        self.jobs.send(job).map_err(|unsent| unsent.0)
    }
}

struct Job {
    request: Request,
    reply: oneshot::Sender<Result<Reply, Fault>>,
    due: Instant,
    _work: OutstandingWork,
}

/// What the lanes of one lock service share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) fleet: Fleet,
    pub(super) budget: Duration,
    pub(super) notices: Arc<Notices>,
    pub(super) distinct_servers: Arc<DistinctServers>,
    pub(super) outstanding: Outstanding,
}

impl Lane {
    pub(super) fn new(number: usize, node: Arc<dyn Node>, shared: Shared) -> Lane {
        Lane { number, node, shared, running: Mutex::default() }
    }

    pub(super) fn name(&self) -> &str {
        self.node.name()
    }

    /// Queues a request. The answer comes within the budget; dropping the receiver undoes
    /// nothing. Outside of a runtime only a lane that already runs takes requests.
    pub(super) fn submit(&self, request: Request) -> Answer {
        let (reply, answer) = oneshot::channel();
        let due = Instant::now() + self.shared.budget;
        let answer = Answer { answer, bound: due + self.shared.budget };
        let mut job = Job { request, reply, due, _work: self.shared.outstanding.begin() };
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.as_ref() {
            match running.send(job) {
                Ok(()) => return answer,
                Err(unsent) => job = unsent,
            }
        }
        // The first request, or the runtime that ran the lane is gone.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (jobs, receiver) = mpsc::unbounded_channel();
            let new = Running { jobs, queued: Arc::default() };
            runtime.spawn(Driver::new(self, Arc::clone(&new.queued)).run(receiver));
            let _ = new.send(job);
            *running = Some(new);
        }
        answer
    }
}

/// The answer to a submitted request.
pub(super) struct Answer {
    answer: oneshot::Receiver<Result<Reply, Fault>>,
    /// The lane bounds the answer, and this bounds a lane whose runtime stands still.
    bound: Instant,
}

impl Answer {
    pub(super) async fn get(self) -> Result<Reply, Fault> {
        let gone = || Err(Fault::Disconnected("the runtime is gone".into()));
        match timeout_at(self.bound, self.answer).await {
            Ok(answer) => answer.unwrap_or_else(|_| gone()),
            Err(_) => Err(Fault::TimedOut),
        }
    }
}

/// How a call ends.
enum Event {
    /// The node answered, and the caller has the answer.
    Answered,
    /// The node did not answer in time, and the caller knows. The call of the session with this
    /// number goes on, to show whether the node lives.
    Slow(u64, BoxFuture<'static, Event>),
    /// The node owed an answer and gave it.
    Alive(u64),
    /// The session of this number is broken.
    Broken(u64),
}

struct Driver {
    number: usize,
    node: Arc<dyn Node>,
    shared: Shared,
    queued: Arc<AtomicUsize>,
    session: Option<Box<dyn Session>>,
    sessions: u64,
    /// Answers that this session owes.
    owed: usize,
    opening: Option<BoxFuture<'static, Result<Box<dyn Session>, Fault>>>,
    opening_since: Instant,
    /// No attempt to connect before this, and why the last one failed.
    closed: Option<(Instant, Fault)>,
    pause: Duration,
    waiting: VecDeque<Job>,
    calls: FuturesUnordered<BoxFuture<'static, Event>>,
}

impl Driver {
    fn new(lane: &Lane, queued: Arc<AtomicUsize>) -> Driver {
        Driver {
            number: lane.number,
            node: Arc::clone(&lane.node),
            shared: lane.shared.clone(),
            queued,
            session: None,
            sessions: 0,
            owed: 0,
            opening: None,
            opening_since: Instant::now(),
            closed: None,
            pause: lane.shared.budget,
            waiting: VecDeque::new(),
            calls: FuturesUnordered::new(),
        }
    }

    async fn run(mut self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        let mut open = true;
        while open || !self.waiting.is_empty() || !self.calls.is_empty() {
            let due = self.waiting.front().map(|job| job.due);
            tokio::select! {
                biased;
                Some(event) = self.calls.next(), if !self.calls.is_empty() => self.on_event(event),
                opened = poll_opening(&mut self.opening), if self.opening.is_some() => {
                    self.opening = None;
                    self.on_opened(opened);
                }
                () = until(due), if due.is_some() => self.give_up_waiting(),
                job = jobs.recv(), if open => match job {
                    Some(job) => {
                        self.queued.fetch_sub(1, Ordering::Relaxed);
                        self.on_job(job);
                    }
                    None => open = false,
                },
            }
        }
    }

    fn on_job(&mut self, job: Job) {
        // The caller has given up: sent now, an acquire could come behind its release.
        if Instant::now() >= job.due && !matches!(job.request, Request::Release { .. }) {
            let _ = job.reply.send(Err(Fault::TimedOut));
            return;
        }
        if let Some(session) = &self.session {
            // To a node that owes an answer only what takes something back is sent.
            if self.owed > 0 && !matches!(job.request, Request::Release { .. }) {
                let _ = job.reply.send(Err(Fault::TimedOut));
                return;
            }
            let call = session.call(job.request.clone());
            self.start(call, job);
        } else if let Some((_, fault)) = self.closed.clone().filter(|(at, _)| Instant::now() < *at)
        {
            let _ = job.reply.send(Err(fault));
        } else if self.opening.is_some() && self.opening_since.elapsed() >= self.shared.budget {
            let _ = job.reply.send(Err(Fault::TimedOut));
        } else {
            if self.opening.is_none() {
                let opening = self.node.open(&self.shared.fleet);
                self.opening_since = Instant::now();
                let limit = ANSWER_LIMIT.max(self.shared.budget);
                self.opening = Some(
                    async move { timeout(limit, opening).await.unwrap_or(Err(Fault::TimedOut)) }
                        .boxed(),
                );
            }
            self.waiting.push_back(job);
        }
    }

    /// Starts the call at once, so that calls reach the session in the order of the jobs.
    fn start(&mut self, mut call: BoxFuture<'static, Result<Reply, Fault>>, job: Job) {
        let first = (&mut call).now_or_never();
        let (session, number) = (self.sessions, self.number);
        let (notices, outstanding) =
            (Arc::clone(&self.shared.notices), self.shared.outstanding.clone());
        let limit = ANSWER_LIMIT.max(self.shared.budget);
        let span = tracing::debug_span!("fencing.node", node = self.node.name());
        let call = async move {
            let answered = match first {
                Some(answer) => Ok(answer),
                None => timeout_at(job.due, &mut call).await,
            };
            let Ok(answer) = answered else {
                let _ = job.reply.send(Err(Fault::TimedOut));
                return Event::Slow(
                    session,
                    async move {
                        match timeout(limit, call).await {
                            Ok(Err(Fault::Disconnected(_))) | Err(_) => Event::Broken(session),
                            Ok(_) => Event::Alive(session),
                        }
                    }
                    .boxed(),
                );
            };
            let broken = matches!(answer, Err(Fault::Disconnected(_)));
            notify(&notices, &outstanding, number, &answer);
            let _ = job.reply.send(answer);
            if broken { Event::Broken(session) } else { Event::Answered }
        };
        self.calls.push(call.instrument(span).boxed());
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Answered => {}
            Event::Slow(session, rest) => {
                // What an older session owes says nothing of this one.
                if session == self.sessions && self.session.is_some() {
                    self.owed += 1;
                }
                self.calls.push(rest);
            }
            Event::Alive(session) if session == self.sessions => {
                self.owed = self.owed.saturating_sub(1);
            }
            Event::Broken(session) if session == self.sessions => {
                self.session = None;
                self.owed = 0;
                self.shared.distinct_servers.lost(self.number);
            }
            Event::Alive(_) | Event::Broken(_) => {}
        }
    }

    fn on_opened(&mut self, opened: Result<Box<dyn Session>, Fault>) {
        match opened.and_then(|session| self.only_one(session)) {
            Ok(session) => {
                self.sessions += 1;
                (self.owed, self.closed, self.pause) = (0, None, self.shared.budget);
                self.session = Some(session);
                for job in std::mem::take(&mut self.waiting) {
                    self.on_job(job);
                }
            }
            Err(fault) => {
                let pause = self.pause / 2 + crate::random::jitter(self.pause / 2);
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                self.closed = Some((Instant::now() + pause, fault.clone()));
                for job in self.waiting.drain(..) {
                    let _ = job.reply.send(Err(fault.clone()));
                }
            }
        }
    }

    fn only_one(&self, session: Box<dyn Session>) -> Result<Box<dyn Session>, Fault> {
        if let Some(server) = session.server() {
            self.shared.distinct_servers.reached(self.number, self.node.name(), server)?;
        }
        Ok(session)
    }

    fn give_up_waiting(&mut self) {
        let now = Instant::now();
        while self.waiting.front().is_some_and(|job| job.due <= now) {
            if let Some(job) = self.waiting.pop_front() {
                let _ = job.reply.send(Err(Fault::TimedOut));
            }
        }
    }
}

impl Drop for Driver {
    /// Its runtime may be gone, and the server reached under another name.
    fn drop(&mut self) {
        self.shared.distinct_servers.lost(self.number);
    }
}

fn notify(
    notices: &Notices,
    outstanding: &Outstanding,
    number: usize,
    answer: &Result<Reply, Fault>,
) {
    let notice = match answer {
        Ok(Reply::NotAdmitted) => Notice::NotAdmitted(number),
        Ok(Reply::Exhausted | Reply::Granted { crowded: true, .. }) => Notice::Collect(number),
        _ => return,
    };
    notices.send(notice, outstanding.begin());
}

async fn poll_opening(
    opening: &mut Option<BoxFuture<'static, Result<Box<dyn Session>, Fault>>>,
) -> Result<Box<dyn Session>, Fault> {
    match opening {
        Some(opening) => opening.await,
        None => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
