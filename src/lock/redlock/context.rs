use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencing_protocol::{ClientId, Fault, Fleet, Incarnation, Reply, Request};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::lock::wait::release_notifications::ReleaseNotifications;

/// The most recovery orders that wait for the background task. More are dropped: the next answer brings another.
const MAX_RECOVERIES: usize = 256;

/// The shared state of the lanes of one lock service.
pub(super) struct LaneContext {
    pub(super) fleet: Fleet,
    pub(super) budget: Duration,
    pub(super) distinct_servers: DistinctServers,
    /// The outstanding work of this client: requests without an answer, and re-admissions.
    pub(super) outstanding: TaskTracker,
    pub(super) client: ClientId,
    pub(super) holder: String,
    pub(super) notifications: Arc<ReleaseNotifications>,
    /// Whether a node has shown this client a lock, its own or another's.
    pub(super) in_use: AtomicBool,
    /// The way to the task that brings nodes back, if one runs.
    pub(super) recoveries: Mutex<Option<mpsc::Sender<Recovery>>>,
}

/// An order to the background task, from a node's answer.
pub(super) struct Recovery {
    pub(super) node: usize,
    /// Whether to collect its counts; otherwise it has forgotten, and is re-admitted.
    pub(super) collect: bool,
    _work: TaskTrackerToken,
}

impl LaneContext {
    /// Notes the rest of a node's answer: that the node is to be re-admitted, that its counts are to be
    /// collected, that locks are in use, or whether the node has announced a release to another client.
    pub(super) fn note(&self, node: usize, request: &Request, answer: &Result<Reply, Fault>) {
        let Ok(reply) = answer else { return };
        let (forgotten, collect) = (reply.is_not_admitted(), reply.is_full());
        if (forgotten || collect)
            && let Some(recoveries) = self.recoveries.lock().as_ref()
        {
            let _work = self.outstanding.token();
            let _ = recoveries.try_send(Recovery { node, collect: !forgotten, _work });
        }
        if reply.shows_use() {
            self.in_use.store(true, Ordering::Relaxed);
        }
        for (request, reply) in request.parts().iter().zip(reply.parts()) {
            let (Request::Release { resource, .. } | Request::Retire { resource, .. }) = request else { continue };
            let notified_another = match reply {
                Reply::ReleasedAndNotified { client } => *client != self.client,
                Reply::Released => false,
                _ => continue,
            };
            self.notifications.on_released(resource, node, notified_another);
        }
    }

    /// Returns the receiving end of the recoveries if no task holds one: the runtime of an earlier task may be gone.
    pub(super) fn unattended(&self) -> Option<mpsc::Receiver<Recovery>> {
        let mut sender = self.recoveries.lock();
        if sender.as_ref().is_some_and(|sender| !sender.is_closed()) {
            return None;
        }
        let (recoveries, receiver) = mpsc::channel(MAX_RECOVERIES);
        *sender = Some(recoveries);
        Some(receiver)
    }
}

/// Keeps note of the server that each lane has reached: one server must not vote through two lanes.
pub(super) struct DistinctServers {
    reached: Mutex<Vec<Reached>>,
    /// How long a lane that lost its session counts for its server: longer than an attempt, or two lanes could vote.
    pause: Duration,
}

struct Reached {
    lane: usize,
    name: String,
    server: Incarnation,
    lost: Option<Instant>,
}

impl DistinctServers {
    pub(super) fn new(pause: Duration) -> DistinctServers {
        DistinctServers { reached: Mutex::default(), pause }
    }

    /// Notes the server that the lane of this name has reached, unless another lane counts for it already.
    pub(super) fn reached(&self, lane: usize, name: &str, at: &Incarnation) -> Result<(), Fault> {
        let mut all = self.reached.lock();
        let over = |lost: Instant| lost.elapsed() >= self.pause;
        all.retain(|reached| reached.lane != lane && !reached.lost.is_some_and(over));
        if let Some(other) = all.iter().find(|reached| reached.server == *at) {
            return Err(Fault::SameServer(other.name.clone()));
        }
        all.push(Reached { lane, name: name.to_owned(), server: at.clone(), lost: None });
        Ok(())
    }

    pub(super) fn lost(&self, lane: usize) {
        let mut all = self.reached.lock();
        for reached in all.iter_mut().filter(|reached| reached.lane == lane) {
            reached.lost.get_or_insert_with(Instant::now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn a_server_has_one_lane_until_that_one_reaches_another() {
        let (distinct_servers, here, there) =
            (DistinctServers::new(PAUSE), Incarnation::new("0a"), Incarnation::new("0b"));
        let same = |name: &str| Err(Fault::SameServer(name.into()));
        assert_eq!(distinct_servers.reached(0, "zero", &here), Ok(()));
        assert_eq!(distinct_servers.reached(0, "zero", &here), Ok(()));
        assert_eq!(distinct_servers.reached(1, "one", &here), same("zero"));
        assert_eq!(distinct_servers.reached(1, "one", &there), Ok(()));
        assert_eq!(distinct_servers.reached(0, "zero", &there), same("one"));
        // The first server of lane 0 is free now.
        assert_eq!(distinct_servers.reached(2, "two", &here), Ok(()));
        distinct_servers.lost(1);
        assert_eq!(distinct_servers.reached(0, "zero", &there), same("one"));
        tokio::time::advance(PAUSE / 2).await;
        // It is counted from the first loss.
        distinct_servers.lost(1);
        tokio::time::advance(PAUSE / 2).await;
        assert_eq!(distinct_servers.reached(0, "zero", &there), Ok(()));
        assert_eq!(distinct_servers.reached(1, "one", &there), same("zero"));
    }
}
