use std::collections::VecDeque;
use std::task::{Context, Poll};
use std::time::Duration;

use fencing_protocol::Fault;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use smallvec::smallvec;
use tokio::time::Instant;
use tracing::Span;

use super::answers::NodeAnswer;
use super::node::{Group, Session, within};
use super::send_queue::Job;

/// A session that was idle for this long may be gone: it is checked before it is used.
const IDLE: Duration = Duration::from_secs(1);

/// A session with a node, and the calls on it that have no answer yet.
pub(super) struct Connection {
    session: Box<dyn Session>,
    check: Option<BoxFuture<'static, Result<(), Fault>>>,
    /// In the order in which they were sent and are answered. All have the same budget, so the late ones come first.
    calls: VecDeque<Call>,
    late: usize,
    /// The requests of the calls that have time left.
    in_time: usize,
    late_since: Instant,
    last_answer: Instant,
    /// The time when it was opened, or tested after it was idle.
    ready_since: Instant,
}

struct Call {
    jobs: Group<Job>,
    /// The deadline of the call; of a late one, whose callers have an error, that of the session.
    due: Instant,
    span: Span,
    answers: BoxFuture<'static, Group<NodeAnswer>>,
}

impl Connection {
    pub(super) fn new(session: Box<dyn Session>) -> Connection {
        let (now, calls) = (Instant::now(), VecDeque::new());
        Connection {
            session,
            check: None,
            calls,
            late: 0,
            in_time: 0,
            late_since: now,
            last_answer: now,
            ready_since: now,
        }
    }

    pub(super) fn ready_since(&self) -> Instant {
        self.ready_since
    }

    /// Reports whether it is being checked, and takes no request until then.
    pub(super) fn is_checked(&self) -> bool {
        self.check.is_some()
    }

    /// Returns since when an answer of the node has been late, if one is.
    pub(super) fn owes_since(&self) -> Option<Instant> {
        (self.late > 0).then_some(self.late_since)
    }

    /// Returns the number of requests in flight, those of late calls counted once for each call.
    pub(super) fn on_the_way(&self) -> usize {
        self.in_time + self.late
    }

    /// Reports whether it takes a request from a caller at once, with at most one other in flight.
    pub(super) fn is_quiet(&self) -> bool {
        let is_fresh = self.in_time == 1 || self.last_answer.elapsed() < IDLE;
        let is_ready = self.check.is_none() && self.late == 0 && self.in_time <= 1;
        is_ready && is_fresh && self.session.is_open_to_callers()
    }

    /// Starts to check an idle session, and reports if it was: a request lost with a broken one may not be repeated.
    pub(super) fn check_if_idle(&mut self, budget: Duration) -> bool {
        let idle = self.on_the_way() == 0 && self.last_answer.elapsed() > IDLE;
        if idle {
            self.check = Some(within(budget, self.session.check()).boxed());
        }
        idle
    }

    /// Starts a call at once, so that calls reach the session in the order of the jobs.
    pub(super) fn call(&mut self, jobs: Group<Job>, due: Instant, span: Span) {
        let mut answers = self.session.call(jobs.iter().map(|job| job.request.clone()).collect());
        if let Some(at_once) = span.in_scope(|| (&mut answers).now_or_never()) {
            answers = ready(at_once).boxed();
        }
        self.in_time += jobs.len();
        self.calls.push_back(Call { jobs, due, span, answers });
    }

    /// Polls a session that has no calls. Returns whether its check has ended, or why the session is broken.
    pub(super) fn poll_idle(&mut self, context: &mut Context<'_>) -> Result<bool, Fault> {
        let checked = match &mut self.check {
            Some(check) => check.as_mut().poll(context),
            None if self.calls.is_empty() => self.session.poll_closed(context).map(Err),
            None => Poll::Pending,
        };
        let Poll::Ready(checked) = checked else { return Ok(false) };
        self.check = None;
        checked?;
        self.last_answer = Instant::now();
        self.ready_since = self.last_answer;
        Ok(true)
    }

    pub(super) fn poll_answers(&mut self, context: &mut Context<'_>) -> Poll<(Group<Job>, Group<NodeAnswer>)> {
        // No answer comes before that of the first call in time. A late one may never come.
        for place in 0..=self.late {
            let Some(call) = self.calls.get_mut(place) else { break };
            let Poll::Ready(answers) = call.span.in_scope(|| call.answers.poll_unpin(context)) else {
                continue;
            };
            let Some(Call { jobs, .. }) = self.calls.remove(place) else { break };
            if place < self.late {
                self.late -= 1;
            } else {
                self.in_time -= jobs.len();
            }
            self.last_answer = Instant::now();
            return Poll::Ready((jobs, answers));
        }
        Poll::Pending
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = |place| self.calls.get(place).map(|call: &Call| call.due);
        due(0).into_iter().chain(due(self.late)).min()
    }

    /// Answers the callers of late calls. Returns whether an answer is late by more than `limit`.
    pub(super) fn give_up(&mut self, now: Instant, limit: Duration) -> bool {
        while let Some(call) = self.calls.get_mut(self.late).filter(|call| call.due <= now) {
            self.in_time -= call.jobs.len();
            for job in &mut call.jobs {
                job.slot.answer(Err(Fault::TimedOut));
            }
            call.due = now + limit;
            if self.late == 0 {
                self.late_since = now;
            }
            self.late += 1;
        }
        self.late > 0 && self.calls.front().is_some_and(|call| call.due <= now)
    }

    /// Ends the session. Returns the calls without an answer, and the answers that have just come.
    pub(super) fn close(self, fault: Fault) -> impl Iterator<Item = (Group<Job>, Group<NodeAnswer>)> {
        self.calls.into_iter().map(move |call| {
            let answers = call.answers.now_or_never();
            let answers = answers.unwrap_or_else(|| smallvec![Err(fault.clone()); call.jobs.len()]);
            (call.jobs, answers)
        })
    }
}
