use std::collections::VecDeque;

use fencing_protocol::{Fault, Request};
use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::answers::AnswerSlot;
use super::node::{Group, GroupKind, renewed_for};

/// A request to one node.
pub(super) struct Job {
    pub(super) request: Request,
    /// The deadline for sending it. A release is sent after it as well, but not a second time.
    pub(super) limit: Instant,
    pub(super) slot: AnswerSlot,
    /// Counts the request as outstanding until its caller has an answer.
    pub(super) work: Option<TaskTrackerToken>,
}

impl Job {
    /// Returns why it was not sent in time. If its time was over before the session was ready, then the node or the
    /// network was slow, and not this client. An attempt is repeated anyway, as it is certain that nothing was sent.
    fn why_late(&self, ready_since: Instant) -> Fault {
        let asks = |request: &Request| matches!(request, Request::Acquire { .. });
        let again = self.request.parts().iter().any(asks);
        if self.limit <= ready_since && !again { Fault::TimedOut } else { Fault::Unsent }
    }
}

/// The requests that were not sent yet, each with its place in the order. Releases have a queue of their own:
/// thousands may wait, and nothing searches them.
#[derive(Default)]
pub(super) struct SendQueue {
    releases: VecDeque<(u64, Job)>,
    others: VecDeque<(u64, Job)>,
    next: u64,
    /// Releases whose callers know that the node could not be reached. The next session sends them.
    kept: Vec<Job>,
}

impl SendQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.releases.is_empty() && self.others.is_empty() && self.kept.is_empty()
    }

    /// Reports whether a request waits that is no release.
    pub(super) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// Adds a request. A release withdraws the earlier requests of its owner: it may then go
    /// before others, and no acquire comes behind the release that undoes it.
    pub(super) fn push(&mut self, job: Job) {
        let place = self.next;
        self.next += 1;
        if !job.request.is_release() {
            return self.others.push_back((place, job));
        }
        // Rarely more than one.
        let same = |(_, other): &(u64, Job)| other.request.owner() == job.request.owner();
        while let Some((_, mut withdrawn)) = self.others.iter().position(same).and_then(|at| self.others.remove(at)) {
            withdrawn.slot.answer(Err(Fault::TimedOut));
        }
        self.releases.push_back((place, job));
    }

    /// Queues again the releases among the requests that were lost with a session: to run one twice does no harm. They
    /// go first, because another release of the same lease may have been queued since.
    pub(super) fn send_again(&mut self, lost: impl IntoIterator<Item = Job, IntoIter: DoubleEndedIterator>) {
        let now = Instant::now();
        let again = |job: &Job| job.request.is_release() && now < job.limit;
        lost.into_iter().rev().filter(again).for_each(|job| self.releases.push_front((0, job)));
    }

    pub(super) fn send_kept(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        self.send_again(kept);
    }

    /// Reports whether releases are kept for the next session.
    pub(super) fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    fn release_is_first(&self) -> bool {
        match (self.releases.front(), self.others.front()) {
            (Some((release, _)), Some((other, _))) => release < other,
            (release, _) => release.is_some(),
        }
    }

    /// Returns the next request that is still worth sending, and refuses the late ones before it; the session is ready
    /// since `ready_since`. Up to `most` requests come together if they can form one group, in which releases go first:
    /// none of them undoes an acquire of the same group, see [`push`](SendQueue::push).
    pub(super) fn next(&mut self, most: usize, ready_since: Instant) -> Group<Job> {
        let now = Instant::now();
        let (mut next, mut ttl) = (Group::<Job>::new(), None);
        while next.len() < most {
            let is_release = self.release_is_first();
            let queue = if is_release { &mut self.releases } else { &mut self.others };
            let joins = |job: &Job| {
                let Some(first) = next.first() else { return true };
                let is_alike = ttl.is_none() || renewed_for(&job.request).is_none_or(|it| Some(it) == ttl);
                [first, job].iter().all(|it| GroupKind::of(&it.request).is_some()) && is_alike
            };
            match queue.pop_front_if(|(_, job)| joins(job)) {
                Some((_, job)) if is_release || now < job.limit => {
                    ttl = ttl.or(renewed_for(&job.request));
                    next.push(job);
                }
                Some((_, mut job)) => {
                    let late = job.why_late(ready_since);
                    job.slot.answer(Err(late));
                }
                None => break,
            }
        }
        next
    }

    /// Takes releases out, as many as there is room for.
    pub(super) fn releases(&mut self, room: usize) -> impl Iterator<Item = Job> + use<> {
        let taken: Vec<_> = self.releases.drain(..room.min(self.releases.len())).collect();
        taken.into_iter().map(|(_, job)| job)
    }

    /// Answers all of them with this fault. Nobody waits for the releases any more, but they are kept.
    pub(super) fn refuse(&mut self, fault: &Fault) {
        for (_, mut job) in self.releases.drain(..) {
            job.slot.answer(Err(fault.clone()));
            job.work = None;
            self.kept.push(job);
        }
        self.refuse_others(fault);
    }

    /// Answers all of them with this fault, but keeps the releases.
    pub(super) fn refuse_others(&mut self, fault: &Fault) {
        for (_, mut job) in self.others.drain(..) {
            job.slot.answer(Err(fault.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use fencing_protocol::{Mode, Owner, Resource, Token};

    use super::*;
    use crate::lock::redlock::answers::Answers;
    use crate::time::{Clock, ManualClock};

    fn answers() -> Answers {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        Answers::new(1, &clock)
    }

    #[tokio::test(start_paused = true)]
    async fn releases_keep_their_order_when_they_are_sent_again() {
        let (mut answers, mut queue) = (answers(), SendQueue::default());
        let limit = Instant::now() + Duration::from_secs(1);
        let mut release = |owner| {
            let request = Request::Release { resource: Resource::new("a").unwrap(), owner: Owner(owner) };
            Job { request, limit, slot: answers.slot(0.into(), limit), work: None }
        };
        queue.push(release(3));
        queue.send_again([release(1), release(2)]);
        let order: Vec<_> = queue.next(64, Instant::now()).iter().map(|job| job.request.owner().unwrap().0).collect();
        assert_eq!(order, [1, 2, 3]);
    }

    /// The script of a group takes one TTL for all of its renewals.
    #[tokio::test(start_paused = true)]
    async fn only_renewals_with_the_same_ttl_go_together() {
        let (mut answers, mut queue) = (answers(), SendQueue::default());
        let limit = Instant::now() + Duration::from_secs(1);
        let (resource, owner) = (Resource::new("a").unwrap(), Owner(7));
        for seconds in [1, 1, 2, 2, 1] {
            let request = Request::Renew {
                resource: resource.clone(),
                owner,
                mode: Mode::Exclusive,
                token: Token::new(1).unwrap(),
                ttl: Duration::from_secs(seconds),
            };
            let slot = answers.slot(0.into(), limit);
            queue.push(Job { request, limit, slot, work: None });
        }
        let sizes: Vec<_> = (0..4).map(|_| queue.next(64, Instant::now()).len()).collect();
        assert_eq!(sizes, [2, 2, 1, 0]);
    }
}
