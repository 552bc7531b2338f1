use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument;

use super::job::{Job, Waiting};
use super::node::{Node, Session};
use super::notices::{Notice, Notices};
use super::outstanding::Outstanding;
use super::shared::Shared;
use crate::lock::hints::Hints;
use crate::protocol::{ClientId, Fault, Reply, Request};

/// How long a session that does not answer is kept before a new one is opened.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// The longest pause between two attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A session that has been idle for so long may be gone: it is tried before it is trusted.
const IDLE: Duration = Duration::from_secs(1);

/// How many requests may be on their way to a node at one time, so that what waits can still be taken
/// back. A node answers as many in less than a budget.
const WINDOW: usize = 256;

type Opening = BoxFuture<'static, Result<Box<dyn Session>, Fault>>;
type Trial = BoxFuture<'static, Result<(), Fault>>;

/// How a call goes on.
enum Event {
    /// The call of the session with this number is over, and the caller has the answer.
    Answered { session: u64, broken: bool },
    /// The node did not answer in time, and the caller knows. The call goes on, to show whether the
    /// node lives.
    Slow(u64, BoxFuture<'static, Event>),
    /// The node owed an answer and gave it.
    Alive(u64),
    /// The node owed an answer, and the session is broken.
    Broken(u64),
}

/// Drives the lane to one node: owns the session, sends requests in their order, and bounds
/// every answer by the node budget, counted from when the request is sent.
///
/// What the node can't take yet waits here, for one budget at most. A node that owes an answer for
/// longer than that is taken for hung: it gets releases only, and everything else is refused at once.
pub(super) struct Driver {
    number: usize,
    node: Arc<dyn Node>,
    shared: Shared,
    queued: Arc<AtomicUsize>,
    session: Option<Box<dyn Session>>,
    sessions: u64,
    /// Requests of this session without an answer, those in time.
    sent: usize,
    /// Answers that this session owes, and since when.
    owed: usize,
    owes_since: Instant,
    last_answer: Instant,
    trial: Option<Trial>,
    opening: Option<Opening>,
    opening_since: Instant,
    /// No attempt to connect before this, and why the last one failed.
    closed: Option<(Instant, Fault)>,
    pause: Duration,
    waiting: Waiting,
    calls: FuturesUnordered<BoxFuture<'static, Event>>,
}

impl Driver {
    pub(super) fn new(
        number: usize,
        node: Arc<dyn Node>,
        shared: Shared,
        queued: Arc<AtomicUsize>,
    ) -> Driver {
        let (now, pause) = (Instant::now(), shared.budget);
        Driver {
            number,
            node,
            queued,
            session: None,
            sessions: 0,
            sent: 0,
            shared,
            owed: 0,
            owes_since: now,
            last_answer: now,
            trial: None,
            opening: None,
            opening_since: now,
            closed: None,
            pause,
            waiting: Waiting::default(),
            calls: FuturesUnordered::new(),
        }
    }

    pub(super) async fn run(mut self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        let mut open = true;
        while open || !self.waiting.is_empty() || !self.calls.is_empty() {
            let limit = self.limit();
            tokio::select! {
                biased;
                Some(event) = self.calls.next(), if !self.calls.is_empty() => self.on_event(event),
                opened = pending(&mut self.opening), if self.opening.is_some() => {
                    self.opening = None;
                    self.on_opened(opened);
                }
                tried = pending(&mut self.trial), if self.trial.is_some() => {
                    self.trial = None;
                    self.on_tried(&tried);
                }
                // `send` refuses those who wait.
                () = until(limit), if limit.is_some() => {}
                job = jobs.recv(), if open => match job {
                    Some(job) => {
                        self.queued.fetch_sub(1, Ordering::Relaxed);
                        self.waiting.push(job);
                    }
                    None => open = false,
                },
            }
            self.send();
        }
    }

    /// Returns until when those who wait may hope, where the node keeps them waiting.
    fn limit(&self) -> Option<Instant> {
        match () {
            () if self.waiting.is_empty() => None,
            () if self.opening.is_some() => Some(self.opening_since + self.shared.budget),
            () if self.session.is_some() && self.owed > 0 => {
                Some(self.owes_since + self.shared.budget)
            }
            () => None,
        }
    }

    /// Sends what can be sent, in order.
    fn send(&mut self) {
        while !self.waiting.is_empty() {
            if self.session.is_none() {
                return self.reach();
            }
            if self.trial.is_some() {
                return;
            }
            if self.owed > 0 {
                return self.send_releases();
            }
            if self.sent == 0 && self.last_answer.elapsed() > IDLE {
                return self.try_session();
            }
            if self.sent >= WINDOW {
                return;
            }
            if let Some(job) = self.waiting.next() {
                self.start(job);
            }
        }
    }

    /// To a node that owes an answer only what takes something back is sent, within the window
    /// while the answer may still come.
    fn send_releases(&mut self) {
        let hung = self.owes_since.elapsed() >= self.shared.budget;
        let room = if hung { usize::MAX } else { WINDOW.saturating_sub(self.sent) };
        for job in self.waiting.releases(room) {
            self.start(job);
        }
        if hung {
            self.waiting.refuse(&Fault::TimedOut);
        }
    }

    /// Opens a session for those who wait, or tells them why there is none.
    fn reach(&mut self) {
        if let Some((at, fault)) = &self.closed
            && Instant::now() < *at
        {
            return self.waiting.refuse(&fault.clone());
        }
        if self.opening.is_some() {
            if self.opening_since.elapsed() >= self.shared.budget {
                self.waiting.refuse(&Fault::TimedOut);
            }
            return;
        }
        let opening = self.node.open(&self.shared.fleet);
        self.opening_since = Instant::now();
        let limit = ANSWER_LIMIT.max(self.shared.budget);
        let opening = async move { timeout(limit, opening).await.unwrap_or(Err(Fault::TimedOut)) };
        self.opening = Some(opening.boxed());
    }

    /// Tries a session that was idle: a request that is lost with it may not be sent again.
    fn try_session(&mut self) {
        let Some(session) = &self.session else { return };
        let (trial, budget) = (session.check(), self.shared.budget);
        let trial = async move { timeout(budget, trial).await.unwrap_or(Err(Fault::TimedOut)) };
        self.trial = Some(trial.boxed());
    }

    fn on_tried(&mut self, tried: &Result<(), Fault>) {
        match tried {
            Ok(()) => self.last_answer = Instant::now(),
            Err(_) => self.lose_session(),
        }
    }

    /// Starts the call at once, so that calls reach the session in the order of the jobs.
    fn start(&mut self, job: Job) {
        let Some(session) = &self.session else { return };
        let mut call = session.call(job.request.clone());
        let first = (&mut call).now_or_never();
        self.sent += 1;
        let (session, number) = (self.sessions, self.number);
        let (notices, outstanding) =
            (Arc::clone(&self.shared.notices), self.shared.outstanding.clone());
        let (hints, client) = (self.shared.hints.clone(), self.shared.client);
        let due = Instant::now() + self.shared.budget;
        let limit = ANSWER_LIMIT.max(self.shared.budget);
        let span = tracing::debug_span!("fencing.node", node = self.node.name());
        let call = async move {
            let answered = match first {
                Some(answer) => Ok(answer),
                None => timeout_at(due, &mut call).await,
            };
            let Ok(answer) = answered else {
                job.answer(Err(Fault::TimedOut));
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
            if let Ok(reply) = &answer {
                released(&hints, client, number, &job.request, reply);
            }
            job.answer(answer);
            Event::Answered { session, broken }
        };
        self.calls.push(call.instrument(span).boxed());
    }

    fn on_event(&mut self, event: Event) {
        match event {
            // What happens to an older session says nothing of this one.
            Event::Answered { session, broken } if self.is_current(session) => {
                self.sent = self.sent.saturating_sub(1);
                self.last_answer = Instant::now();
                if broken {
                    self.lose_session();
                }
            }
            Event::Slow(session, rest) => {
                if self.is_current(session) {
                    self.sent = self.sent.saturating_sub(1);
                    if self.owed == 0 {
                        self.owes_since = Instant::now();
                    }
                    self.owed += 1;
                }
                self.calls.push(rest);
            }
            Event::Alive(session) if self.is_current(session) => {
                self.owed = self.owed.saturating_sub(1);
                self.last_answer = Instant::now();
            }
            Event::Broken(session) if self.is_current(session) => self.lose_session(),
            Event::Answered { .. } | Event::Alive(_) | Event::Broken(_) => {}
        }
    }

    fn is_current(&self, session: u64) -> bool {
        session == self.sessions && self.session.is_some()
    }

    fn lose_session(&mut self) {
        (self.session, self.sent, self.owed) = (None, 0, 0);
        self.shared.distinct_servers.lost(self.number);
    }

    fn on_opened(&mut self, opened: Result<Box<dyn Session>, Fault>) {
        match opened.and_then(|session| self.only_one(session)) {
            Ok(session) => {
                self.sessions += 1;
                (self.closed, self.pause) = (None, self.shared.budget);
                (self.sent, self.owed, self.last_answer) = (0, 0, Instant::now());
                self.session = Some(session);
            }
            Err(fault) => {
                let pause = self.pause / 2 + crate::random::jitter(self.pause / 2);
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                self.closed = Some((Instant::now() + pause, fault));
            }
        }
    }

    fn only_one(&self, session: Box<dyn Session>) -> Result<Box<dyn Session>, Fault> {
        if let Some(server) = session.server() {
            self.shared.distinct_servers.reached(self.number, self.node.name(), server)?;
        }
        Ok(session)
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
        Ok(reply) if reply.is_not_admitted() => Notice::NotAdmitted(number),
        Ok(reply) if reply.is_full() => Notice::Collect(number),
        _ => return,
    };
    notices.send(notice, outstanding.begin());
}

/// Notes whether a release was told to another client.
fn released(hints: &Hints, client: ClientId, number: usize, request: &Request, reply: &Reply) {
    match (request, reply) {
        (Request::Release { resource, .. }, Reply::Passed { to }) => {
            hints.released(resource, number, *to != client);
        }
        (Request::Release { resource, .. }, Reply::Released) => {
            hints.released(resource, number, false);
        }
        (Request::Several(requests), Reply::Several(replies)) => {
            for (request, reply) in requests.iter().zip(replies) {
                released(hints, client, number, request, reply);
            }
        }
        _ => {}
    }
}

async fn pending<T>(future: &mut Option<BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn until(limit: Option<Instant>) {
    match limit {
        Some(limit) => tokio::time::sleep_until(limit).await,
        None => std::future::pending().await,
    }
}
