use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use fencing_protocol::Resource;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::acquirer::Acquirer;
use super::queue::WaitQueue;
use super::wanted::{List, Target, Wanted};
use crate::lock::error::AcquireError;

#[cfg(test)]
mod tests;

/// The queues of this process: one for each resource, and one for each list of resources. A lease that this
/// process releases wakes the acquirer of its resource, and of the lists with it that one which has waited
/// longest: if all asked at once, their votes would split.
#[derive(Default)]
pub(crate) struct WaitQueues {
    pub(in crate::lock) one: Registry<Resource>,
    several: Registry<List>,
}

impl WaitQueues {
    /// Makes attempts until one succeeds or the wait limit is reached, in the order of the queue. The lists with the
    /// same resource ask together as often as one would: also if servers do not answer, which many concurrent
    /// attempts would prevent.
    pub(crate) async fn acquire<F, L>(&self, wanted: Wanted<'_>, attempt: impl Fn() -> F) -> Result<L, AcquireError>
    where
        F: Future<Output = Result<L, AcquireError>>,
    {
        let queue = match wanted.target {
            Target::One(resource, _) => queue(&self.one, resource),
            Target::List(list) => queue(&self.several, list),
        };
        let lists = |resource: &Resource| self.lists_with(resource).len();
        let acquirers = |error: &AcquireError| match (wanted.target, error) {
            (Target::One(..), _) => 1,
            (Target::List(_), AcquireError::Held { resource, .. }) => lists(resource),
            (Target::List(list), _) => list.resources().iter().map(lists).max().unwrap_or(1),
        };
        let Some(place) = queue.place(&wanted).await? else {
            // It has no place in the queue: nothing can be handed over to it.
            return attempt().await;
        };
        Acquirer::new(&queue, wanted).acquire(place.asks_after, acquirers, attempt).await
    }

    /// Reports whether a lease that is about to be released goes to the next caller of this process, and no other
    /// client is to be notified.
    pub(crate) fn hands_over(&self, resource: &Resource) -> bool {
        self.one.lock().get(resource).is_some_and(|queue| queue.hands_over())
    }

    /// Wakes the acquirer of a resource that was released, `handed_over` or not, and one of a list with it.
    pub(crate) fn wake(&self, resource: &Resource, handed_over: bool) {
        let lists = self.lists_with(resource);
        if let Some((_, queue)) = lists.iter().min_by_key(|(since, _)| *since) {
            queue.released.notify_one();
        }
        let queue = self.one.lock().get(resource).cloned();
        if let Some(queue) = queue {
            queue.on_released(handed_over);
        }
    }

    /// Returns the queues of lists with this resource that have an acquirer, and since when that waits.
    fn lists_with(&self, resource: &Resource) -> Vec<(Instant, Arc<WaitQueue>)> {
        let with = |(list, queue): (&List, &Arc<WaitQueue>)| {
            let since = queue.acquirer_since()?;
            list.resources().contains(resource).then(|| (since, Arc::clone(queue)))
        };
        self.several.lock().iter().filter_map(with).collect()
    }
}

/// Queues, which are forgotten when they have no callers.
type Registry<K> = Mutex<HashMap<K, Arc<WaitQueue>>>;

fn queue<K: Clone + Eq + Hash>(registry: &Registry<K>, key: &K) -> Arc<WaitQueue> {
    let mut queues = registry.lock();
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
