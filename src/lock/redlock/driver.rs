use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use fencing_protocol::{Fault, Reply, Request};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, timeout};

use super::in_flight::{Call, Ended, InFlight};
use super::job::{Job, Waiting};
use super::node::{Node, Opened, Session};
use super::own_wakes::OwnWakes;
use super::shared::Shared;
use super::timer::{Timer, poll_optional};

/// How long a session that does not answer is kept before a new one is opened.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// The longest pause between two attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A session that has been idle for so long may be gone: it is tried before it is trusted.
const IDLE: Duration = Duration::from_secs(1);

/// How many requests may be on their way to a node at one time, so that what waits can still be taken
/// back. A node answers as many in less than a budget.
const WINDOW: usize = 256;

/// How many renewals go as one request.
const MOST_RENEWALS: usize = 64;
/// For how long renewals go one by one after a node has refused several: one may have made it refuse the others.
const APART: Duration = Duration::from_secs(60);

type Opening = BoxFuture<'static, Result<Opened, Fault>>;
type Trial = BoxFuture<'static, Result<(), Fault>>;

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
    /// The future that moves the bytes of the session.
    motion: Option<BoxFuture<'static, ()>>,
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
    /// When the session was opened, or found to be well after it was idle.
    ready_since: Instant,
    /// No attempt to connect before this, and why the last one failed.
    closed: Option<(Instant, Fault)>,
    pause: Duration,
    /// Until when renewals go one by one.
    apart_until: Instant,
    waiting: Waiting,
    in_flight: InFlight,
    timer: Timer,
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
            motion: None,
            sessions: 0,
            sent: 0,
            shared,
            owed: 0,
            owes_since: now,
            last_answer: now,
            trial: None,
            opening: None,
            opening_since: now,
            ready_since: now,
            closed: None,
            pause,
            apart_until: now,
            waiting: Waiting::default(),
            in_flight: InFlight::default(),
            timer: Timer::new(),
        }
    }

    /// Runs until the lane is gone and nothing is on its way. The runtime's cooperative budget
    /// does not bound it: it must see answers that have come before it gives up requests that seem late. The
    /// window bounds how much it does at one time.
    pub(super) async fn run(mut self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        let wakes = Arc::<OwnWakes>::default();
        let mut poll = |context: &mut Context<'_>| self.poll(context, &mut jobs);
        unconstrained(poll_fn(|context| wakes.poll(context, &mut poll))).await;
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        jobs: &mut mpsc::UnboundedReceiver<Job>,
    ) -> Poll<()> {
        let open = self.poll_jobs(context, jobs);
        // Finds out first whether the connection is closed: then nothing is sent on it.
        self.poll_motion(context);
        self.send();
        loop {
            let mut news = self.poll_motion(context);
            while let Poll::Ready(ended) = self.in_flight.poll_ended(context) {
                self.on_ended(ended);
                news = true;
            }
            if let Some(opened) = poll_optional(&mut self.opening, context) {
                self.opening = None;
                self.on_opened(opened);
                news = true;
            }
            if let Some(tried) = poll_optional(&mut self.trial, context) {
                self.trial = None;
                self.on_tried(&tried);
                news = true;
            }
            news |= self.poll_timer(context);
            if !news {
                break;
            }
            self.send();
        }
        let over = !open && self.waiting.is_empty() && self.in_flight.is_empty();
        if over { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Moves bytes. Returns whether the server has closed the connection: nothing more is sent there.
    fn poll_motion(&mut self, context: &mut Context<'_>) -> bool {
        let closed = poll_optional(&mut self.motion, context).is_some();
        if closed {
            self.lose_session();
        }
        closed
    }

    /// Takes what was submitted. Returns whether more may come.
    fn poll_jobs(
        &mut self,
        context: &mut Context<'_>,
        jobs: &mut mpsc::UnboundedReceiver<Job>,
    ) -> bool {
        for _ in 0..WINDOW {
            match jobs.poll_recv(context) {
                Poll::Ready(Some(job)) => {
                    self.queued.fetch_sub(1, Ordering::Relaxed);
                    self.waiting.push(job);
                }
                Poll::Ready(None) => return false,
                Poll::Pending => return true,
            }
        }
        context.waker().wake_by_ref();
        true
    }

    /// Gives up what is late by now, and sets the timer for what is late next. Returns whether
    /// anything was.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> bool {
        let mut news = false;
        while let Some(next) = self.next_limit() {
            if next <= Instant::now() {
                // Refuses the requests that wait behind it as well.
                self.give_up();
                self.send();
                news = true;
                continue;
            }
            if self.timer.poll_until(next, context).is_pending() {
                return news;
            }
        }
        news
    }

    /// Returns when something is late next.
    fn next_limit(&self) -> Option<Instant> {
        let limits = [self.limit(), self.in_flight.next_due(), self.in_flight.next_broken()];
        limits.into_iter().flatten().min()
    }

    /// Returns until when those who wait may hope, where the node keeps them waiting.
    fn limit(&self) -> Option<Instant> {
        match () {
            () if !self.waiting.has_others() => None,
            () if self.opening.is_some() => Some(self.opening_since + self.shared.budget),
            () if self.session.is_some() && self.owed > 0 => {
                Some(self.owes_since + self.shared.budget)
            }
            () => None,
        }
    }

    /// Tells the callers whose answers are late, and loses a session that owes one for too long.
    fn give_up(&mut self) {
        let now = Instant::now();
        let until = now + ANSWER_LIMIT.max(self.shared.budget);
        while let Some((session, requests)) = self.in_flight.late(now, until) {
            if self.is_current(session) {
                self.sent = self.sent.saturating_sub(requests);
                if self.owed == 0 {
                    self.owes_since = now;
                }
                self.owed += 1;
            }
        }
        for (session, releases) in self.in_flight.broken(now) {
            if self.is_current(session) {
                self.lose_session();
            }
            self.waiting.send_again(releases);
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
            let apart = Instant::now() < self.apart_until;
            let most = if apart { 1 } else { MOST_RENEWALS };
            let jobs = self.waiting.next(most, self.ready_since);
            self.start(jobs);
        }
    }

    /// To a node that owes an answer only what takes something back is sent, within the window: more
    /// at one time would keep the answers back for so long that the session was given up.
    fn send_releases(&mut self) {
        for job in self.waiting.releases(WINDOW.saturating_sub(self.sent + self.owed)) {
            self.start(vec![job]);
        }
        if self.owes_since.elapsed() >= self.shared.budget {
            // The releases go when there is room again, or with the session.
            self.waiting.refuse_others(&Fault::TimedOut);
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
                self.waiting.refuse_others(&Fault::TimedOut);
            }
            return;
        }
        let opening = self.node.open_driven(&self.shared.fleet);
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
            Ok(()) => self.ready(),
            Err(_) => self.lose_session(),
        }
    }

    /// Starts the call at once, so that calls reach the session in the order of the jobs.
    fn start(&mut self, jobs: Vec<Job>) {
        let Some(session) = &self.session else { return };
        let span = tracing::debug_span!("fencing.node", node = self.node.name());
        let request = Request::together(jobs.iter().map(|job| job.request.clone()).collect());
        let mut call: Call = session.call(request);
        if let Some(answer) = span.in_scope(|| (&mut call).now_or_never()) {
            call = std::future::ready(answer).boxed();
        }
        self.sent += jobs.len();
        let due = Instant::now() + self.shared.budget;
        self.in_flight.push(self.sessions, due, jobs, call, span);
    }

    fn on_ended(&mut self, Ended { session, answer, late, mut jobs }: Ended) {
        let broken = matches!(answer, Err(Fault::Disconnected(_)));
        // An older session's end says nothing of this one.
        if self.is_current(session) {
            self.owed = self.owed.saturating_sub(usize::from(late));
            self.sent = self.sent.saturating_sub(if late { 0 } else { jobs.len() });
            self.last_answer = Instant::now();
            if broken {
                self.lose_session();
            }
        }
        if jobs.len() > 1 && answer.is_err() && !broken {
            self.apart_until = Instant::now() + APART;
        }
        let answers = if jobs.len() > 1 { Reply::apart(answer, jobs.len()) } else { vec![answer] };
        for (job, answer) in jobs.iter_mut().zip(answers) {
            self.shared.note(self.number, &job.request, &answer);
            job.answer(answer);
        }
        if broken {
            self.waiting.send_again(jobs);
        }
    }

    fn is_current(&self, session: u64) -> bool {
        session == self.sessions && self.session.is_some()
    }

    fn ready(&mut self) {
        self.last_answer = Instant::now();
        self.ready_since = self.last_answer;
    }

    fn lose_session(&mut self) {
        (self.session, self.motion, self.sent, self.owed) = (None, None, 0, 0);
        self.trial = None;
        self.shared.distinct_servers.lost(self.number);
    }

    fn on_opened(&mut self, opened: Result<Opened, Fault>) {
        match opened.and_then(|opened| self.only_one(opened)) {
            Ok(Opened { session, motion }) => {
                self.sessions += 1;
                (self.closed, self.pause) = (None, self.shared.budget);
                (self.sent, self.owed, self.session, self.motion) = (0, 0, Some(session), motion);
                self.ready();
            }
            Err(fault) => {
                let pause = self.pause / 2 + crate::random::jitter(self.pause / 2);
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                self.closed = Some((Instant::now() + pause, fault));
            }
        }
    }

    fn only_one(&self, opened: Opened) -> Result<Opened, Fault> {
        if let Some(server) = opened.session.server() {
            self.shared.distinct_servers.reached(self.number, self.node.name(), server)?;
        }
        Ok(opened)
    }
}

impl Drop for Driver {
    /// Its runtime may be gone, and the server reached under another name.
    fn drop(&mut self) {
        self.shared.distinct_servers.lost(self.number);
    }
}
