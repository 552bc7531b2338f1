use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use fencing_protocol::{Fault, Reply};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;
use tracing::Span;

use super::job::Job;

/// The answer to one call of a session. One call may carry several requests.
pub(super) type Answer = Result<Reply, Fault>;
/// One call of a session.
pub(super) type Call = BoxFuture<'static, Answer>;

/// The calls of a lane that have no answer yet. All have the same budget, so the oldest is always due first.
#[derive(Default)]
pub(super) struct InFlight {
    calls: FuturesUnordered<Numbered>,
    /// The number of the next call.
    next: u64,
    /// The calls that have time left, in the order of their numbers, without gaps up to `next`. `None`
    /// where the answer has come.
    in_time: VecDeque<Option<Sent>>,
    /// Late calls, whose callers have an error, with the releases among their requests: until when the session
    /// may owe the answer.
    late: BTreeMap<u64, Sent>,
}

struct Sent {
    session: u64,
    due: Instant,
    jobs: Vec<Job>,
}

struct Numbered {
    number: u64,
    span: Span,
    /// `None` when nobody waits for it any more.
    call: Option<Call>,
    waker: Option<Waker>,
}

/// A call that has ended.
pub(super) struct Ended {
    /// The session that it belongs to.
    pub(super) session: u64,
    pub(super) answer: Answer,
    /// Whether it was late: its callers have an error.
    pub(super) late: bool,
    /// Its requests; the releases among them, if it was late.
    pub(super) jobs: Vec<Job>,
}

impl Future for Numbered {
    type Output = (u64, Option<Answer>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let _entered = this.span.enter();
        let answer = match &mut this.call {
            Some(call) => call.as_mut().poll(context).map(Some),
            None => Poll::Ready(None),
        };
        if answer.is_pending() {
            this.waker = Some(context.waker().clone());
        }
        answer.map(|answer| (this.number, answer))
    }
}

impl InFlight {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes a call that was sent in this session.
    pub(super) fn push(
        &mut self,
        session: u64,
        due: Instant,
        jobs: Vec<Job>,
        call: Call,
        span: Span,
    ) {
        self.calls.push(Numbered { number: self.next, span, call: Some(call), waker: None });
        self.in_time.push_back(Some(Sent { session, due, jobs }));
        self.next += 1;
    }

    /// Returns the next call that has ended.
    pub(super) fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<Ended> {
        while let Some((number, answer)) = ready!(self.calls.poll_next_unpin(context)) {
            // Nobody waits for it any more.
            let Some(answer) = answer else { continue };
            if let Some(Sent { session, jobs, .. }) = self.late.remove(&number) {
                return Poll::Ready(Ended { session, answer, late: true, jobs });
            }
            let first = self.next - self.in_time.len() as u64;
            let place = number.checked_sub(first).and_then(|place| usize::try_from(place).ok());
            let sent = place.and_then(|place| self.in_time.get_mut(place)).and_then(Option::take);
            while self.in_time.front().is_some_and(Option::is_none) {
                self.in_time.pop_front();
            }
            if let Some(Sent { session, jobs, .. }) = sent {
                return Poll::Ready(Ended { session, answer, late: false, jobs });
            }
        }
        Poll::Pending
    }

    /// Returns when the next call is late.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.in_time.iter().flatten().next().map(|sent| sent.due)
    }

    /// Returns when the next session has owed an answer for too long.
    pub(super) fn next_broken(&self) -> Option<Instant> {
        self.late.values().next().map(|sent| sent.due)
    }

    /// Tells the callers of the next call that is late. Returns its session, which may owe the answer until
    /// `until`, and how many requests it had.
    pub(super) fn late(&mut self, now: Instant, until: Instant) -> Option<(u64, usize)> {
        while self.in_time.front().is_some_and(Option::is_none) {
            self.in_time.pop_front();
        }
        let number = self.next - self.in_time.len() as u64;
        self.in_time.front().and_then(Option::as_ref).filter(|sent| sent.due <= now)?;
        let Sent { session, mut jobs, .. } = self.in_time.pop_front().flatten()?;
        let requests = jobs.len();
        jobs.iter_mut().for_each(|job| job.answer(Err(Fault::TimedOut)));
        jobs.retain(Job::is_release);
        self.late.insert(number, Sent { session, due: until, jobs });
        Some((session, requests))
    }

    /// Returns the sessions that have owed an answer for too long, and the releases whose answer it was. Stops
    /// waiting for these answers.
    pub(super) fn broken(&mut self, now: Instant) -> Vec<(u64, Vec<Job>)> {
        let last = self.late.iter().take_while(|(_, sent)| sent.due <= now).last();
        let Some(last) = last.map(|(number, _)| *number) else { return Vec::new() };
        let rest = self.late.split_off(&(last + 1));
        let broken = std::mem::replace(&mut self.late, rest);
        for call in self.calls.iter_mut().filter(|call| broken.contains_key(&call.number)) {
            call.call = None;
            // Wakes the call, so that it is polled once more and ends.
            if let Some(waker) = call.waker.take() {
                waker.wake();
            }
        }
        broken.into_values().map(|sent| (sent.session, sent.jobs)).collect()
    }
}
