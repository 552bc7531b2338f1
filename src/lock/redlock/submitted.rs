use std::mem;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::send_queue::Job;

/// Requests submitted to the nodes, and not taken yet.
#[derive(Default)]
pub(super) struct Submitted(Mutex<SubmittedState>);

#[derive(Default)]
struct SubmittedState {
    /// Each with the number of its node.
    jobs: Vec<(usize, Job)>,
    taker: Taker,
    /// No more will come.
    closed: bool,
}

/// The task that takes the jobs.
#[derive(Default)]
pub(super) enum Taker {
    #[default]
    Gone,
    Awake,
    Waits(Waker),
}

impl Submitted {
    /// Adds jobs. Returns those that `has_room` refuses, given the number of waiting jobs, and the task's previous
    /// state, so that the caller wakes or starts it. If no task runs and `can_start` is false, all jobs come back.
    pub(super) fn add(
        &self,
        jobs: impl Iterator<Item = (usize, Job)>,
        has_room: impl Fn(&Job, usize) -> bool,
        can_start: bool,
    ) -> (Vec<Job>, Taker) {
        let mut refused = Vec::new();
        let mut state = self.0.lock();
        let is_taken = can_start || !matches!(state.taker, Taker::Gone);
        for (node, job) in jobs {
            if is_taken && has_room(&job, state.jobs.len()) {
                state.jobs.push((node, job));
            } else {
                refused.push(job);
            }
        }
        let next = if is_taken { Taker::Awake } else { Taker::Gone };
        (refused, mem::replace(&mut state.taker, next))
    }

    /// Ends the submissions.
    pub(super) fn close(&self) {
        let mut state = self.0.lock();
        state.closed = true;
        if let Taker::Waits(waker) = mem::replace(&mut state.taker, Taker::Awake) {
            drop(state);
            waker.wake();
        }
    }

    /// Reports whether jobs wait to be taken.
    pub(super) fn has_jobs(&self) -> bool {
        !self.0.lock().jobs.is_empty()
    }

    /// Exchanges the submitted jobs for the empty `jobs`. `Ready` after the end of submissions.
    pub(super) fn poll_take(&self, context: &Context<'_>, jobs: &mut Vec<(usize, Job)>) -> Poll<()> {
        let mut state = self.0.lock();
        mem::swap(&mut state.jobs, jobs);
        state.taker = Taker::Waits(context.waker().clone());
        if state.closed { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Notes that no task takes the jobs, and drops them.
    pub(super) fn abandon(&self) {
        let jobs = {
            let mut state = self.0.lock();
            state.taker = Taker::Gone;
            mem::take(&mut state.jobs)
        };
        // Not under the lock: this may run code of the callers.
        drop(jobs);
    }
}
