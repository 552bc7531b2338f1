use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::time::{Instant, sleep_until};

use crate::protocol::{Fault, Reply, majority};

type Answer = Result<Reply, Fault>;

/// The answers to what one caller has asked. All lanes put theirs in here, so that the caller has one
/// place, one waker and one timer for all of them.
pub(super) struct Answers {
    inbox: Arc<Inbox>,
    /// What is awaited, by the number of the question: of which node, and until when it counts.
    awaited: Vec<Option<(usize, Instant)>>,
    open: usize,
    /// How many more answers decide nothing alone.
    undecided: usize,
}

#[derive(Default)]
struct Inbox(Mutex<State>);

#[derive(Default)]
struct State {
    /// With the number of the question.
    come: VecDeque<(usize, Answer)>,
    /// The caller, and how many answers it waits for at least.
    waker: Option<(Waker, usize)>,
}

/// The place of one answer. Dropped without one, it says that nobody will answer.
pub(super) struct Slot {
    inbox: Arc<Inbox>,
    question: Option<usize>,
}

impl Inbox {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, question: usize, answer: Answer) {
        let mut state = self.state();
        state.come.push_back((question, answer));
        let enough = state.waker.as_ref().is_some_and(|(_, least)| state.come.len() >= *least);
        let waker = if enough { state.waker.take() } else { None };
        drop(state);
        if let Some((waker, _)) = waker {
            waker.wake();
        }
    }
}

impl Slot {
    pub(super) fn answer(mut self, answer: Answer) {
        if let Some(question) = self.question.take() {
            self.inbox.put(question, answer);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(question) = self.question.take() {
            let gone = Fault::Disconnected("the runtime is gone".into());
            self.inbox.put(question, Err(gone));
        }
    }
}

impl Answers {
    /// Makes room for the answers of so many nodes.
    pub(super) fn new(nodes: usize) -> Answers {
        let state = State { come: VecDeque::with_capacity(nodes), waker: None };
        let inbox = Arc::new(Inbox(Mutex::new(state)));
        Answers { inbox, awaited: Vec::with_capacity(nodes), open: 0, undecided: 0 }
    }

    /// Says that all of `nodes` nodes are asked for a vote: fewer answers than a majority, or than
    /// leave no majority, decide nothing, and need not wake the caller.
    pub(super) fn of_votes(nodes: usize) -> Answers {
        let least = majority(nodes).min(nodes + 1 - majority(nodes));
        Answers { undecided: least.saturating_sub(1), ..Answers::new(nodes) }
    }

    /// Awaits one more answer, which counts until `bound`: a re-admission relies on it that what was
    /// asked before is over by then.
    pub(super) fn slot(&mut self, node: usize, bound: Instant) -> Slot {
        let question = Some(self.awaited.len());
        self.awaited.push(Some((node, bound)));
        self.open += 1;
        Slot { inbox: Arc::clone(&self.inbox), question }
    }

    /// Returns the next answer with the number of its node, or `None` if no more are awaited. A lane
    /// bounds its answers, and the bound here is for one whose runtime stands still.
    ///
    /// You may drop it at any point: no answer gets lost.
    pub(super) async fn next(&mut self) -> Option<(usize, Answer)> {
        if let Some(next) = self.come() {
            return Some(next);
        }
        let bound = self.awaited.iter().flatten().map(|(_, bound)| *bound).min()?;
        let mut timer = pin!(sleep_until(bound));
        poll_fn(|context| match self.poll_come(context) {
            Poll::Ready(next) => Poll::Ready(next),
            Poll::Pending => timer.as_mut().poll(context).map(|()| self.late()),
        })
        .await
    }

    fn poll_come(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, Answer)>> {
        let mut state = self.inbox.state();
        let least = (self.undecided + 1).min(self.open);
        if state.come.len() < least {
            state.waker = Some((context.waker().clone(), least));
            return Poll::Pending;
        }
        drop(state);
        self.come().map_or(Poll::Pending, |next| Poll::Ready(Some(next)))
    }

    /// Takes an answer that has come, if one that is still awaited has.
    fn come(&mut self) -> Option<(usize, Answer)> {
        loop {
            let (question, answer) = self.inbox.state().come.pop_front()?;
            if let Some((node, bound)) = self.awaited.get_mut(question).and_then(Option::take) {
                self.open -= 1;
                self.undecided = self.undecided.saturating_sub(1);
                // It came, and nobody looked: that is no fault of the node.
                let late = answer.is_ok() && Instant::now() > bound;
                return Some((node, if late { Err(Fault::Overloaded) } else { answer }));
            }
        }
    }

    /// Gives one up that is not awaited any more.
    fn late(&mut self) -> Option<(usize, Answer)> {
        let now = Instant::now();
        let late = |slot: &&mut Option<(usize, Instant)>| {
            slot.as_ref().is_some_and(|(_, bound)| *bound <= now)
        };
        let (node, _) = self.awaited.iter_mut().find(late)?.take()?;
        self.open -= 1;
        self.undecided = self.undecided.saturating_sub(1);
        Some((node, Err(Fault::TimedOut)))
    }
}
