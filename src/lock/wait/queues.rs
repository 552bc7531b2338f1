use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use fencing_protocol::{Mode, Resource};
use tokio::time::{Instant, timeout_at};

use super::acquirer::Acquirer;
use super::backoff::pause;
use super::groups::Groups;
use super::queue::WaitQueue;
use crate::lock::AcquireError;
use crate::lock::backend::LockBackend;
use crate::lock::settings::Settings;

#[cfg(test)]
mod tests;

/// For how long a queue that is empty is remembered where that is needed.
const RECENT: Duration = Duration::from_secs(10);

/// The local queues. Within a process one contender per resource asks the servers, and the
/// others wait behind it in the order in which they came. A lease that this process releases wakes the
/// first of them.
#[derive(Default)]
pub(crate) struct WaitQueues(Mutex<HashMap<Resource, Kept>>, Groups);

/// A queue, which is forgotten when it is empty.
struct Kept {
    queue: Weak<WaitQueue>,
    /// Keeps it for a time where nobody tells that others wait: its streak must not be forgotten.
    longer: Option<Arc<WaitQueue>>,
}

impl Kept {
    fn is_needed(&self) -> bool {
        let (users, own) = (self.queue.strong_count(), usize::from(self.longer.is_some()));
        users > own || self.longer.as_ref().is_some_and(|queue| queue.is_recent(RECENT))
    }
}

impl WaitQueues {
    /// Makes attempts until one succeeds or the wait limit is reached, in the order of the queue.
    pub(crate) async fn acquire<B, F, L>(
        &self,
        (backend, resource, settings): (&B, &Resource, &Settings),
        mode: Mode,
        attempt: impl Fn() -> F,
    ) -> Result<L, AcquireError>
    where
        B: LockBackend,
        F: Future<Output = Result<L, AcquireError>>,
    {
        let since = Instant::now();
        let end = since + settings.wait;
        let queue = self.of(resource, !B::REPORTS_REMOTE_WAITERS);
        let caller = (mode == Mode::Exclusive).then(|| queue.enter());
        let (_turn, after) = match queue.turn.try_lock() {
            // Who shares it has asked a moment ago, or lets another process come first.
            Ok(turn) => (turn, (mode == Mode::Shared).then(|| since + pause(settings))),
            // All who wait here get the contender's error: they must not ask all at once, nor
            // one after another when the contender gives up.
            Err(_) => match (timeout_at(end, queue.turn.lock()).await, queue.last_error()) {
                (Err(_), None) => {
                    // It asks out of turn: nothing can be handed_over on to it.
                    drop(caller);
                    return attempt().await;
                }
                (Err(_), Some((error, _))) => return Err(error),
                (Ok(_), Some((error, next))) if next >= end && !queue.is_handed_over() => {
                    return Err(error);
                }
                (Ok(turn), Some((_, next))) => (turn, Some(next)),
                (Ok(turn), None) => (turn, None),
            },
        };
        let contender = Acquirer::new(&queue, (backend, resource, settings), mode, since);
        contender.acquire(after, attempt).await
    }

    /// Reports whether a lease that is about to be released is to go to the next caller of this process, and
    /// nobody elsewhere is to be told.
    pub(crate) fn hands_over(&self, resource: &Resource) -> bool {
        self.existing(resource).is_some_and(|queue| queue.hands_over())
    }

    /// Wakes the one who is first in the queue of a resource: a lease was released. It was `handed_over` if nobody
    /// elsewhere was told.
    pub(crate) fn wake(&self, resource: &Resource, handed_over: bool) {
        self.1.wake(resource);
        if let Some(queue) = self.existing(resource) {
            queue.on_released(handed_over);
        }
    }

    fn existing(&self, resource: &Resource) -> Option<Arc<WaitQueue>> {
        self.lock().get(resource).and_then(|kept| kept.queue.upgrade())
    }

    /// Returns the queues of those who wait for several resources.
    pub(crate) fn groups(&self) -> &Groups {
        &self.1
    }

    /// Returns the queue of a resource.
    fn of(&self, resource: &Resource, longer: bool) -> Arc<WaitQueue> {
        let mut queues = self.lock();
        if let Some(queue) = queues.get(resource).and_then(|kept| kept.queue.upgrade()) {
            return queue;
        }
        if queues.len() >= 64 && queues.len().is_power_of_two() {
            queues.retain(|_, kept| kept.is_needed());
        }
        let queue = Arc::<WaitQueue>::default();
        let kept =
            Kept { queue: Arc::downgrade(&queue), longer: longer.then(|| Arc::clone(&queue)) };
        queues.insert(resource.clone(), kept);
        queue
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Resource, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
