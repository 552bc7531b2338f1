use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use fencing_protocol::{Mode, NonEmpty, Resource};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::acquirer::{Acquirer, Wanted};
use super::backoff::pause;
use super::queue::WaitQueue;
use crate::lock::error::{AcquireError, MAX_RESOURCES};
use crate::lock::settings::Settings;
use crate::random::jitter;

#[cfg(test)]
mod tests;

/// The queues of this process: one for each resource, and one for each list of resources. A lease that
/// this process releases wakes the acquirer of its resource, and of the lists with it that one which has waited
/// longest: if all asked at one time, their votes would split.
#[derive(Default)]
pub(crate) struct WaitQueues {
    one: Registry<Resource>,
    several: Registry<List>,
}

/// Resources that a caller waits for in one call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum List {
    /// The first that is free, in this order.
    Any(NonEmpty<Resource>),
    /// All of them, in the order of their names and each of them once.
    All(NonEmpty<Resource>),
}

impl List {
    pub(crate) fn any(resources: &[Resource]) -> Result<List, AcquireError> {
        bounded(resources.to_vec()).map(List::Any)
    }

    pub(crate) fn all(resources: &[Resource]) -> Result<List, AcquireError> {
        let mut resources = resources.to_vec();
        resources.sort_unstable();
        resources.dedup();
        bounded(resources).map(List::All)
    }

    pub(crate) fn resources(&self) -> &NonEmpty<Resource> {
        let (List::Any(resources) | List::All(resources)) = self;
        resources
    }
}

fn bounded(resources: Vec<Resource>) -> Result<NonEmpty<Resource>, AcquireError> {
    let count = resources.len();
    let wrong = AcquireError::WrongCount { count, most: MAX_RESOURCES };
    NonEmpty::from_vec(resources).filter(|_| count <= MAX_RESOURCES).ok_or(wrong)
}

impl WaitQueues {
    /// Makes attempts until one succeeds or the wait limit is reached, in the order of the queue.
    pub(crate) async fn acquire<F, L>(
        &self,
        wanted: Wanted<'_>,
        attempt: impl Fn() -> F,
    ) -> Result<L, AcquireError>
    where
        F: Future<Output = Result<L, AcquireError>>,
    {
        let Wanted { resource, mode, settings, notifications } = wanted;
        let since = Instant::now();
        let span = (since, since + settings.wait);
        let queue = self.one.queue(resource);
        let waiter = (mode == Mode::Exclusive).then(|| queue.count());
        // A caller for a shared lease has asked already, or lets another process be first.
        let first = (mode == Mode::Shared).then(|| since + pause(settings));
        let remembers = !notifications.report_remote_waiters();
        let Some((_head, after)) = queue.place(span, first, remembers).await? else {
            // It has no place in the queue: nothing can be handed over to it.
            drop(waiter);
            return attempt().await;
        };
        Acquirer::new(&queue, wanted, span).acquire(after, attempt).await
    }

    /// The same for several resources. Servers send no notifications for lists: their acquirers poll.
    pub(crate) async fn acquire_list<F, L>(
        &self,
        list: &List,
        settings: &Settings,
        attempt: impl Fn() -> F,
    ) -> Result<L, AcquireError>
    where
        F: Future<Output = Result<L, AcquireError>>,
    {
        let since = Instant::now();
        let end = since + settings.wait;
        let queue = self.several.queue(list);
        let Some((_head, after)) = queue.place((since, end), None, false).await? else {
            return attempt().await;
        };
        if let Some(after) = after {
            let _ = timeout_at(after, queue.released.notified()).await;
        }
        loop {
            let error = match attempt().await {
                Ok(lease) => {
                    queue.on_acquired_list();
                    return Ok(lease);
                }
                Err(error) => error,
            };
            let (now, pause) = (Instant::now(), pause(settings));
            queue.on_error(&error, now + pause);
            if now + pause >= end {
                return Err(error);
            }
            // The lists with the same resource ask together as often as one would: also where servers do not answer,
            // which many attempts at one time would keep from it.
            let beside = match &error {
                AcquireError::Held { resource, .. } => self.lists_with(resource).len(),
                _ => list.resources().iter().map(|it| self.lists_with(it).len()).max().unwrap_or(1),
            };
            let others = u32::try_from(2 * beside.saturating_sub(1)).unwrap_or(u32::MAX);
            let pause = pause + jitter(settings.retry_delay.saturating_mul(others));
            let last = end.checked_sub(settings.retry_delay / 2).unwrap_or(now);
            let _ = timeout_at((now + pause).min(last.max(now)), queue.released.notified()).await;
        }
    }

    /// Reports whether a lease that is about to be released goes to the next caller of this process, and no other
    /// client is to be notified.
    pub(crate) fn hands_over(&self, resource: &Resource) -> bool {
        self.one.get(resource).is_some_and(|queue| queue.hands_over())
    }

    /// Wakes the acquirer of a resource that was released, `handed_over` or not, and one of a list with it.
    pub(crate) fn wake(&self, resource: &Resource, handed_over: bool) {
        let lists = self.lists_with(resource);
        if let Some((_, queue)) = lists.iter().min_by_key(|(since, _)| *since) {
            queue.released.notify_one();
        }
        if let Some(queue) = self.one.get(resource) {
            queue.on_released(handed_over);
        }
    }

    /// Returns the queues of lists with this resource that have an acquirer, and since when that waits.
    fn lists_with(&self, resource: &Resource) -> Vec<(Instant, Arc<WaitQueue>)> {
        let with = |(list, queue): (&List, &Arc<WaitQueue>)| {
            let since = queue.acquirer_since()?;
            list.resources().contains(resource).then(|| (since, Arc::clone(queue)))
        };
        self.several.0.lock().iter().filter_map(with).collect()
    }
}

/// Queues, which are forgotten when they have no callers.
struct Registry<K>(Mutex<HashMap<K, Arc<WaitQueue>>>);

impl<K> Default for Registry<K> {
    fn default() -> Registry<K> {
        Registry(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> Registry<K> {
    fn get(&self, key: &K) -> Option<Arc<WaitQueue>> {
        self.0.lock().get(key).cloned()
    }

    fn queue(&self, key: &K) -> Arc<WaitQueue> {
        let mut queues = self.0.lock();
        if let Some(queue) = queues.get(key) {
            return Arc::clone(queue);
        }
        if queues.len() >= 64 && queues.len().is_power_of_two() {
            queues.retain(|_, queue| Arc::strong_count(queue) > 1 || queue.is_recent());
        }
        let queue = Arc::<WaitQueue>::default();
        queues.insert(key.clone(), Arc::clone(&queue));
        queue
    }
}
