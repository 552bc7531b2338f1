use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::outstanding::OutstandingWork;
use crate::protocol::{Fault, Owner, Reply, Request};

/// A request on its way to one node.
pub(super) struct Job {
    pub(super) request: Request,
    /// It is not sent after this, unless it is a release.
    pub(super) limit: Instant,
    reply: oneshot::Sender<Result<Reply, Fault>>,
    _work: OutstandingWork,
}

impl Job {
    /// A job that may wait for `patience` until it is sent.
    pub(super) fn new(
        request: Request,
        patience: Duration,
        reply: oneshot::Sender<Result<Reply, Fault>>,
        work: OutstandingWork,
    ) -> Job {
        Job { request, limit: Instant::now() + patience, reply, _work: work }
    }

    pub(super) fn is_release(&self) -> bool {
        self.request.is_release()
    }

    /// Gives the caller its answer. It may have given up.
    pub(super) fn answer(self, answer: Result<Reply, Fault>) {
        let _ = self.reply.send(answer);
    }

    fn owner(&self) -> Option<Owner> {
        self.request.owner()
    }
}

/// The requests that were not sent yet, in their order.
#[derive(Default)]
pub(super) struct Waiting(VecDeque<Job>);

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a request. A release takes the earlier requests of its owner out: it may then go
    /// before others, and no acquire comes behind the release that undoes it.
    pub(super) fn push(&mut self, job: Job) {
        if job.is_release() {
            // Seldom more than one.
            while let Some(place) = self.0.iter().position(|other| other.owner() == job.owner()) {
                if let Some(withdrawn) = self.0.remove(place) {
                    withdrawn.answer(Err(Fault::TimedOut));
                }
            }
        }
        self.0.push_back(job);
    }

    /// Returns the next request that is still worth to be sent, and refuses those before it.
    pub(super) fn next(&mut self) -> Option<Job> {
        let now = Instant::now();
        loop {
            let job = self.0.pop_front()?;
            if now < job.limit || job.is_release() {
                return Some(job);
            }
            job.answer(Err(Fault::Overloaded));
        }
    }

    /// Takes the releases out, as many as there is room for.
    pub(super) fn releases(&mut self, room: usize) -> VecDeque<Job> {
        let mut releases = VecDeque::new();
        if room == 0 {
            return releases;
        }
        for job in std::mem::take(&mut self.0) {
            let taken = job.is_release() && releases.len() < room;
            if taken { &mut releases } else { &mut self.0 }.push_back(job);
        }
        releases
    }

    /// Answers all of them with this fault.
    pub(super) fn refuse(&mut self, fault: &Fault) {
        for job in self.0.drain(..) {
            job.answer(Err(fault.clone()));
        }
    }
}
