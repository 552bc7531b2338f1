use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fencing_protocol::Fault;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use smallvec::smallvec;
use tokio::time::{Instant, Sleep, sleep};

use super::answers::{NodeAnswer, Woken};
use super::connection::Connection;
use super::context::LaneContext;
use super::node::{Group, Node, Session, within};
use super::send_queue::{Job, SendQueue};
use crate::backoff::Backoff;

/// Time after which an unresponsive session is replaced.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest pause between two attempts to connect.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The most requests in flight to a node, so that waiting ones can be withdrawn. It answers this many within a budget.
const WINDOW: usize = 256;

/// The most requests in one call: they keep a node busy for about 0.1 ms.
const MAX_GROUP: usize = 64;

/// Drives the lane of one node: owns the connection, sends requests in their order, and bounds every answer by the node
/// budget, counted from when the request is sent. Requests that the node can't take yet wait here, for one budget at
/// most. A node that owes an answer for longer counts as hung: it gets only releases, and everything else is refused.
pub(super) struct Driver {
    number: usize,
    node: Arc<dyn Node>,
    context: Arc<LaneContext>,
    link: Link,
    /// The pauses after failed attempts to connect.
    backoff: Backoff,
    /// The jobs that are sent when the driver is polled next.
    pub(super) waiting: SendQueue,
    /// One timer for all deadlines: reset only to an earlier one, so it may fire early.
    timer: Pin<Box<Sleep>>,
    /// The callers to wake after this poll.
    woken: Vec<Woken>,
}

enum Link {
    /// No attempt to connect before this time, if there is one, because the last one failed.
    Closed(Option<(Instant, Fault)>),
    Opening {
        since: Instant,
        opening: BoxFuture<'static, Result<Box<dyn Session>, Fault>>,
    },
    Open(Connection),
}

impl Driver {
    pub(super) fn new(number: usize, node: Arc<dyn Node>, context: Arc<LaneContext>) -> Driver {
        Driver {
            number,
            node,
            link: Link::Closed(None),
            backoff: Backoff::new(context.budget.min(MAX_PAUSE), MAX_PAUSE),
            waiting: SendQueue::default(),
            timer: Box::pin(sleep(Duration::MAX)),
            woken: Vec::new(),
            context,
        }
    }

    /// Sends what can be sent, and takes received answers. The callers are not woken before `woken` is cleared.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, woken: &mut Vec<Woken>) {
        // Finds out first whether the connection is closed: then nothing is sent on it.
        self.poll_link(context);
        self.send();
        while self.poll_link(context) | self.poll_timer(context) {
            self.send();
        }
        woken.append(&mut self.woken);
    }

    pub(super) fn is_busy(&self) -> bool {
        matches!(&self.link, Link::Open(connection) if connection.on_the_way() > 0)
    }

    /// Reports whether a request can go at once, with at most one other in flight.
    pub(super) fn is_quiet(&self) -> bool {
        let is_ready = matches!(&self.link, Link::Open(connection) if connection.is_quiet());
        // An answer that seems late may have come: the task finds out.
        let is_late = self.next_due().is_some_and(|due| due <= Instant::now());
        is_ready && self.waiting.is_empty() && !is_late
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.is_busy() && self.waiting.is_empty()
    }

    /// Moves bytes and takes answers. Returns whether there was progress.
    fn poll_link(&mut self, context: &mut Context<'_>) -> bool {
        let moved = match &mut self.link {
            Link::Closed(_) => return false,
            Link::Opening { opening, .. } => {
                let Poll::Ready(opened) = opening.as_mut().poll(context) else { return false };
                self.on_opened(opened);
                return true;
            }
            Link::Open(connection) => connection.poll_idle(context),
        };
        let mut progress = match moved {
            Ok(checked) => checked,
            Err(fault) => {
                self.disconnect(fault);
                true
            }
        };
        while let Link::Open(connection) = &mut self.link
            && let Poll::Ready((jobs, answers)) = connection.poll_answers(context)
        {
            self.on_answers(jobs, answers);
            progress = true;
        }
        progress
    }

    /// Gives up late requests, and sets the timer for the next deadline. Returns whether any was late.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> bool {
        let mut progress = false;
        while let Some(next) = self.next_due() {
            if next <= Instant::now() {
                self.give_up();
                // Refuses the requests that wait behind it as well.
                self.send();
                progress = true;
                continue;
            }
            if self.timer.is_elapsed() || next < self.timer.deadline() {
                self.timer.as_mut().reset(next);
            }
            if self.timer.as_mut().poll(context).is_pending() {
                break;
            }
        }
        progress
    }

    /// Returns when something is due next: an answer, a request for a slow node, or the session for kept releases.
    fn next_due(&self) -> Option<Instant> {
        let (slow_since, due) = match &self.link {
            Link::Closed(paused) => {
                (None, paused.as_ref().map(|(until, _)| *until).filter(|_| self.waiting.has_kept()))
            }
            Link::Opening { since, .. } => (Some(*since), None),
            Link::Open(connection) => (connection.owes_since(), connection.next_due()),
        };
        let slow_since = slow_since.filter(|_| self.waiting.has_others());
        slow_since.map(|since| since + self.context.budget).into_iter().chain(due).min()
    }

    fn give_up(&mut self) {
        let limit = ANSWER_TIMEOUT.max(self.context.budget);
        if let Link::Open(connection) = &mut self.link
            && connection.give_up(Instant::now(), limit)
        {
            self.disconnect(Fault::TimedOut);
        }
    }

    fn send(&mut self) {
        let budget = self.context.budget;
        while !self.waiting.is_empty() {
            let connection = match &mut self.link {
                Link::Closed(Some((until, fault))) if Instant::now() < *until => return self.waiting.refuse(fault),
                Link::Closed(_) => return self.open(),
                Link::Opening { since, .. } => {
                    if since.elapsed() >= budget {
                        self.waiting.refuse_others(&Fault::TimedOut);
                    }
                    return;
                }
                Link::Open(connection) => connection,
            };
            let span = || tracing::debug_span!("fencing.node", node = self.node.name());
            let (due, room) = (Instant::now() + budget, WINDOW.saturating_sub(connection.on_the_way()));
            if let Some(since) = connection.owes_since() {
                // Only releases, within the window: more would delay the answers until the session times out. The
                // others go when there is room again, or with the session.
                for job in self.waiting.releases(room) {
                    connection.call(smallvec![job], due, span());
                }
                if since.elapsed() >= budget {
                    self.waiting.refuse_others(&Fault::TimedOut);
                }
                return;
            }
            if room == 0 || connection.is_checked() || connection.check_if_idle(budget) {
                return;
            }
            let jobs = self.waiting.next(MAX_GROUP.min(room), connection.ready_since());
            if !jobs.is_empty() {
                connection.call(jobs, due, span());
            }
        }
    }

    fn open(&mut self) {
        self.waiting.send_kept();
        let opening = self.node.open(&self.context.fleet, &self.context.holder);
        let opening = within(ANSWER_TIMEOUT.max(self.context.budget), opening).boxed();
        self.link = Link::Opening { since: Instant::now(), opening };
    }

    fn on_opened(&mut self, opened: Result<Box<dyn Session>, Fault>) {
        let opened = opened.and_then(|session| {
            if let Some(server) = session.server() {
                self.context.distinct_servers.reached(self.number, self.node.name(), server)?;
            }
            Ok(session)
        });
        self.link = match opened {
            Ok(session) => {
                self.backoff.reset();
                Link::Open(Connection::new(session))
            }
            Err(fault) => Link::Closed(Some((Instant::now() + self.backoff.pause(), fault))),
        }
    }

    fn on_answers(&mut self, mut jobs: Group<Job>, answers: Group<NodeAnswer>) {
        let mut faults = answers.iter().filter_map(|answer| answer.as_ref().err());
        let broken = faults.find(|fault| matches!(fault, Fault::Disconnected(_))).cloned();
        self.answer(&mut jobs, answers);
        if let Some(fault) = broken {
            self.disconnect(fault);
            self.waiting.send_again(jobs);
        }
    }

    fn answer(&mut self, jobs: &mut [Job], answers: Group<NodeAnswer>) {
        for (job, answer) in jobs.iter_mut().zip(answers) {
            self.context.note(self.number, &job.request, &answer);
            self.woken.extend(job.slot.answer(answer));
        }
    }

    /// Ends the session. Releases without an answer are sent again in the next one.
    fn disconnect(&mut self, fault: Fault) {
        let Link::Open(connection) = mem::replace(&mut self.link, Link::Closed(None)) else {
            return;
        };
        let mut again = Vec::new();
        for (mut jobs, answers) in connection.close(fault) {
            let is_lost = |it: &NodeAnswer| matches!(it, Err(Fault::Disconnected(_) | Fault::TimedOut));
            let lost = answers.iter().any(is_lost);
            self.answer(&mut jobs, answers);
            if lost {
                again.extend(jobs);
            }
        }
        self.waiting.send_again(again);
        self.context.distinct_servers.lost(self.number);
    }
}

impl Drop for Driver {
    /// Its runtime may be gone, and the server reached under another name.
    fn drop(&mut self) {
        self.context.distinct_servers.lost(self.number);
    }
}
