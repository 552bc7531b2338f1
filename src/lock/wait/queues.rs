use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use fencing_protocol::{Mode, NonEmpty, Resource};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::acquirer::{Acquirer, Wanted};
use super::backoff::pause;
use super::queue::WaitQueue;
use crate::lock::error::{AcquireError, MAX_RESOURCES};
use crate::lock::settings::Settings;

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
        resource: &Resource,
        wanted: Wanted<'_>,
        attempt: impl Fn() -> F,
    ) -> Result<L, AcquireError>
    where
        F: Future<Output = Result<L, AcquireError>>,
    {
        acquire(&self.one.queue(resource), wanted, |_| 1, attempt).await
    }

    /// The same for several resources. The lists with the same resource ask together as often as one would: also
    /// where servers do not answer, which many attempts at one time would keep from it.
    pub(crate) async fn acquire_list<F, L>(
        &self,
        list: &List,
        settings: &Settings,
        attempt: impl Fn() -> F,
    ) -> Result<L, AcquireError>
    where
        F: Future<Output = Result<L, AcquireError>>,
    {
        let acquirers = |error: &AcquireError| match error {
            AcquireError::Held { resource, .. } => self.lists_with(resource).len(),
            _ => list.resources().iter().map(|it| self.lists_with(it).len()).max().unwrap_or(1),
        };
        let wanted = Wanted { mode: Mode::Exclusive, settings, notifications: None };
        acquire(&self.several.queue(list), wanted, acquirers, attempt).await
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

async fn acquire<F, L>(
    queue: &WaitQueue,
    wanted: Wanted<'_>,
    acquirers: impl Fn(&AcquireError) -> usize,
    attempt: impl Fn() -> F,
) -> Result<L, AcquireError>
where
    F: Future<Output = Result<L, AcquireError>>,
{
    let Wanted { mode, settings, notifications } = wanted;
    let since = Instant::now();
    let span = (since, since + settings.wait);
    let waiter = (mode == Mode::Exclusive).then(|| queue.count());
    // A caller for a shared lease has asked already, or lets another process be first.
    let first = (mode == Mode::Shared).then(|| since + pause(settings));
    let remembers = notifications.is_some_and(|(_, it)| !it.report_remote_waiters());
    let Some((_head, after)) = queue.place(span, first, remembers).await? else {
        // It has no place in the queue: nothing can be handed over to it.
        drop(waiter);
        return attempt().await;
    };
    Acquirer::new(queue, wanted, span).acquire(after, acquirers, attempt).await
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
