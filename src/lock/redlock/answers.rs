use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fencing_protocol::{Address, Fault, Reply, majority};
use parking_lot::Mutex;
use scopeguard::{ScopeGuard, guard};
use tokio::time::{Instant, sleep_until};

use crate::time::{Clock, Time};

pub(super) type NodeAnswer = Result<Reply, Fault>;

/// The answers to one caller's requests. All lanes put their answers in here, so that the caller has one
/// place, one waker and one timer for all of them.
pub(super) struct Answers {
    inbox: Arc<Mutex<Inbox>>,
    /// The clock that leases are timed by: a vote's age counts the time in which the machine was suspended.
    clock: Arc<dyn Clock>,
    /// The same moment by the timers and by that clock.
    begun: (Instant, Time),
    /// The answers still awaited, by the number of the question.
    awaited: Vec<Option<Awaited>>,
    /// The number of further answers before one can decide the vote.
    undecided: usize,
}

/// An outstanding answer. It times out after `bound`, and does not count after `end`.
struct Awaited {
    from: Address,
    bound: Instant,
    end: Time,
}

struct Inbox {
    /// Received answers, with the number of their question.
    received: VecDeque<(usize, NodeAnswer)>,
    /// The caller's waker, and how many answers must come before it is woken.
    waker: Option<(Waker, usize)>,
}

/// A caller that has enough answers. Dropping this wakes it: hold no lock then that it takes next.
pub(super) type Woken = ScopeGuard<Waker, fn(Waker)>;

/// The place of one answer. Dropped without an answer, it gives the caller an error.
pub(super) struct AnswerSlot {
    inbox: Arc<Mutex<Inbox>>,
    question: Option<usize>,
}

impl AnswerSlot {
    /// Gives the caller this answer, unless it has one. It may have given up.
    pub(super) fn answer(&mut self, answer: NodeAnswer) -> Option<Woken> {
        let question = self.question.take()?;
        let mut inbox = self.inbox.lock();
        inbox.received.push_back((question, answer));
        let count = inbox.received.len();
        let (waker, _) = inbox.waker.take_if(|(_, least)| count >= *least)?;
        Some(guard(waker, Waker::wake as fn(Waker)))
    }
}

impl Drop for AnswerSlot {
    fn drop(&mut self) {
        if self.question.is_some() {
            self.answer(Err(Fault::Disconnected("the runtime is gone".into())));
        }
    }
}

impl Answers {
    /// Makes room for the votes of this many nodes. No answer wakes the caller before the vote may be decided: when a
    /// majority may have granted, or too many may have refused.
    pub(super) fn new(nodes: usize, clock: &Arc<dyn Clock>) -> Answers {
        let inbox = Arc::new(Mutex::new(Inbox { received: VecDeque::with_capacity(nodes), waker: None }));
        let begun = (Instant::now(), clock.now());
        let (clock, awaited) = (Arc::clone(clock), Vec::with_capacity(nodes));
        let least = majority(nodes).min(nodes + 1 - majority(nodes));
        Answers { inbox, clock, begun, awaited, undecided: least.saturating_sub(1) }
    }

    /// Awaits one more answer, which counts until `bound`: re-admission relies on earlier requests being over by then.
    pub(super) fn slot(&mut self, from: Address, bound: Instant) -> AnswerSlot {
        let question = Some(self.awaited.len());
        let (timer, clock) = self.begun;
        let end = clock + bound.saturating_duration_since(timer);
        self.awaited.push(Some(Awaited { from, bound, end }));
        AnswerSlot { inbox: Arc::clone(&self.inbox), question }
    }

    /// Returns the next answer with the address of its request, or `None` if no more are awaited. A lane bounds its
    /// answers itself; the bound here is for a lane whose runtime is stuck. Dropped at any point, it loses no answer.
    pub(super) async fn next(&mut self) -> Option<(Address, NodeAnswer)> {
        if let Some(next) = self.take_next() {
            return Some(next);
        }
        let bound = self.awaited.iter().flatten().map(|it| it.bound).min()?;
        let mut timer = pin!(sleep_until(bound));
        poll_fn(|context| match self.poll_received(context) {
            Poll::Ready(next) => Poll::Ready(next),
            Poll::Pending => timer.as_mut().poll(context).map(|()| self.late()),
        })
        .await
    }

    /// Returns each answer by the number of its node.
    pub(super) async fn all(mut self) -> BTreeMap<usize, NodeAnswer> {
        let mut all = BTreeMap::new();
        while let Some((from, answer)) = self.next().await {
            all.insert(from.node, answer);
        }
        all
    }

    fn poll_received(&mut self, context: &mut Context<'_>) -> Poll<Option<(Address, NodeAnswer)>> {
        loop {
            let mut inbox = self.inbox.lock();
            let least = (self.undecided + 1).min(self.awaited.iter().flatten().count()).max(1);
            if inbox.received.len() < least {
                inbox.waker = Some((context.waker().clone(), least));
                return Poll::Pending;
            }
            drop(inbox);
            // The answers that have arrived may have timed out.
            if let Some(next) = self.take_next() {
                return Poll::Ready(Some(next));
            }
        }
    }

    /// Takes the first received answer that is still awaited.
    fn take_next(&mut self) -> Option<(Address, NodeAnswer)> {
        loop {
            let (question, answer) = self.inbox.lock().received.pop_front()?;
            if let Some(Awaited { from, end, .. }) = self.close(question) {
                let late = answer.is_ok() && self.clock.now() > end;
                return Some((from, if late { Err(Fault::Unread) } else { answer }));
            }
        }
    }

    fn close(&mut self, question: usize) -> Option<Awaited> {
        let awaited = self.awaited.get_mut(question)?.take()?;
        self.undecided = self.undecided.saturating_sub(1);
        Some(awaited)
    }

    fn late(&mut self) -> Option<(Address, NodeAnswer)> {
        let now = Instant::now();
        let late = |it: &Option<Awaited>| it.as_ref().is_some_and(|it| it.bound <= now);
        let question = self.awaited.iter().position(late)?;
        let Awaited { from, .. } = self.close(question)?;
        Some((from, Err(Fault::TimedOut)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;
    use crate::time::ManualClock;

    const SECOND: Duration = Duration::from_secs(1);

    fn still() -> Arc<dyn Clock> {
        Arc::new(ManualClock::default())
    }

    fn in_seconds(seconds: u32) -> Instant {
        Instant::now() + SECOND * seconds
    }

    /// The machine was suspended: timers did not run, and the clock of the leases went on.
    #[tokio::test(start_paused = true)]
    async fn an_answer_after_its_time_does_not_count_and_is_no_fault_of_the_node() {
        for (passed, counts) in [(SECOND, true), (SECOND + SECOND / 10, false)] {
            let clock = ManualClock::default();
            let mut answers = Answers::new(1, &(Arc::new(clock.clone()) as Arc<dyn Clock>));
            let mut slot = answers.slot(7.into(), in_seconds(1));
            clock.advance(passed);
            slot.answer(Ok(Reply::Renewed));
            let answer = if counts { Ok(Reply::Renewed) } else { Err(Fault::Unread) };
            assert_eq!(answers.next().await, Some((7.into(), answer)));
            assert_eq!(answers.next().await, None);
        }
    }

    /// A lane whose runtime is stuck does not hold up the caller, and its late answer does not count as another's.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_was_given_up_takes_nobodys_place() {
        let mut answers = Answers::new(2, &still());
        let (mut stuck, mut other) = (answers.slot(0.into(), in_seconds(1)), answers.slot(1.into(), in_seconds(60)));
        assert_eq!(answers.next().await, Some((0.into(), Err(Fault::TimedOut))));
        let start = Instant::now();
        tokio::spawn(async move {
            stuck.answer(Ok(Reply::Renewed));
            tokio::time::sleep(SECOND).await;
            other.answer(Ok(Reply::Released));
        });
        assert_eq!(answers.next().await, Some((1.into(), Ok(Reply::Released))));
        assert_eq!(start.elapsed(), SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_whom_nobody_will_answer_gets_an_error() {
        let mut answers = Answers::new(1, &still());
        drop(answers.slot(0.into(), in_seconds(60)));
        let next = answers.next().now_or_never().unwrap();
        assert!(matches!(next, Some((_, Err(Fault::Disconnected(_))))), "{next:?}");
    }

    /// Votes that decide nothing wake no caller, but each counts.
    #[tokio::test(start_paused = true)]
    async fn votes_come_together_and_none_is_lost() {
        #[derive(Default)]
        struct CountedWakes(AtomicUsize);
        impl Wake for CountedWakes {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let wakes = Arc::<CountedWakes>::default();
        let mut answers = Answers::new(5, &still());
        let slots: Vec<_> = (0..5).map(|node| answers.slot(node.into(), in_seconds(60))).collect();
        let mut next = Box::pin(answers.next());
        let waker = Waker::from(Arc::clone(&wakes));
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        for (number, mut slot) in (1..).zip(slots) {
            slot.answer(Ok(Reply::Renewed));
            assert_eq!(wakes.0.load(Ordering::SeqCst), usize::from(number >= 3), "{number}");
        }
        assert!(next.await.is_some());
        for _ in 1..5 {
            assert!(answers.next().now_or_never().flatten().is_some());
        }
        assert_eq!(answers.next().await, None);
    }
}
