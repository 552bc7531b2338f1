use std::collections::VecDeque;

use tokio::time::Instant;

use super::answers::Slot;
use super::outstanding::OutstandingWork;
use crate::protocol::{Fault, Owner, Reply, Request};

/// A request on its way to one node.
pub(super) struct Job {
    pub(super) request: Request,
    /// It is not sent after this, unless it is a release.
    pub(super) limit: Instant,
    slot: Slot,
    _work: OutstandingWork,
}

impl Job {
    /// A job that may wait until `limit` before it is sent.
    pub(super) fn new(request: Request, limit: Instant, slot: Slot, work: OutstandingWork) -> Job {
        Job { request, limit, slot, _work: work }
    }

    pub(super) fn is_release(&self) -> bool {
        self.request.is_release()
    }

    /// Returns why it was not sent in time. If its time was over before the session was ready, then the
    /// node or the network was slow, and not this client. An attempt is made anew all the same, as it is
    /// certain that nothing was sent.
    fn why_late(&self, ready_since: Instant) -> Fault {
        let asks =
            |request: &Request| matches!(request, Request::Acquire { .. } | Request::Share { .. });
        let again = match &self.request {
            Request::Several(parts) => parts.iter().any(asks),
            request => asks(request),
        };
        if self.limit <= ready_since && !again { Fault::TimedOut } else { Fault::Overloaded }
    }

    fn is_renewal(&self) -> bool {
        matches!(self.request, Request::Renew { .. })
    }

    /// Gives the caller its answer. It may have given up.
    pub(super) fn answer(self, answer: Result<Reply, Fault>) {
        self.slot.answer(answer);
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

    /// Returns the next request that is still worth sending, and refuses those before it: the session was
    /// ready since then. Renewals that follow one another come together, up to that many.
    pub(super) fn next(&mut self, most_renewals: usize, ready_since: Instant) -> Vec<Job> {
        let now = Instant::now();
        let mut next = Vec::with_capacity(1);
        while let Some(job) = self.0.pop_front() {
            if now < job.limit || job.is_release() {
                next.push(job);
            } else {
                let late = job.why_late(ready_since);
                job.answer(Err(late));
            }
            let more = self.0.front().is_some_and(Job::is_renewal) && next.len() < most_renewals;
            let joined = more && next.iter().all(Job::is_renewal);
            if !(next.is_empty() || joined) {
                break;
            }
        }
        next
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
