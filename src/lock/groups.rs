use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{Mutex as FairMutex, Notify};
use tokio::time::{Instant, timeout_at};

use super::error::{AcquireError, MOST};
use super::settings::Settings;
use crate::random::jitter;
use crate::resource::Resource;

/// The local queues of those who wait for several resources. Within a process one contender for each
/// list asks the servers, and the others wait behind it in the order in which they came. A lease of
/// this process that is released wakes the contenders that have its resource in their list.
#[derive(Default)]
pub(super) struct Groups(Mutex<HashMap<Wanted, Weak<Group>>>);

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Wanted {
    /// The first that is free, in this order.
    Any(Arc<[Resource]>),
    /// All of them, in the order of their names and each of them once.
    All(Arc<[Resource]>),
}

impl Wanted {
    pub(super) fn any(resources: &[Resource]) -> Result<Wanted, AcquireError> {
        Ok(Wanted::Any(bounded(resources.into())?))
    }

    pub(super) fn all(resources: &[Resource]) -> Result<Wanted, AcquireError> {
        let mut resources = resources.to_vec();
        resources.sort_unstable();
        resources.dedup();
        Ok(Wanted::All(bounded(resources.into())?))
    }

    pub(super) fn resources(&self) -> &Arc<[Resource]> {
        let (Wanted::Any(resources) | Wanted::All(resources)) = self;
        resources
    }
}

fn bounded(resources: Arc<[Resource]>) -> Result<Arc<[Resource]>, AcquireError> {
    match resources.len() {
        1..=MOST => Ok(resources),
        count => Err(AcquireError::of_count(count)),
    }
}

/// The queue of one list.
#[derive(Default)]
struct Group {
    turn: FairMutex<()>,
    /// Wakes the contender.
    freed: Notify,
    /// The last error that the contender got, and when the next may ask.
    last_error: Mutex<Option<(AcquireError, Instant)>>,
}

impl Group {
    fn last_error(&self) -> Option<(AcquireError, Instant)> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, error: Option<(AcquireError, Instant)>) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

impl Groups {
    /// Makes attempts until one succeeds or the wait limit is reached, in the order of the queue.
    pub(super) async fn acquire<F, L>(
        &self,
        wanted: Wanted,
        settings: &Settings,
        attempt: impl Fn() -> F,
    ) -> Result<L, AcquireError>
    where
        F: Future<Output = Result<L, AcquireError>>,
    {
        let end = Instant::now() + settings.wait;
        let group = self.of(wanted);
        let _turn = match group.turn.try_lock() {
            Ok(turn) => turn,
            // Those who wait here get the contender's error: they must not ask all at once, nor one
            // after another when the contender gives up.
            Err(_) => match (timeout_at(end, group.turn.lock()).await, group.last_error()) {
                (Err(_), None) => return attempt().await,
                (Err(_), Some((error, _))) => return Err(error),
                (Ok(_), Some((error, next))) if next >= end => return Err(error),
                (Ok(turn), Some((_, next))) => {
                    let _ = timeout_at(next, group.freed.notified()).await;
                    turn
                }
                (Ok(turn), None) => turn,
            },
        };
        loop {
            let error = match attempt().await {
                Ok(lease) => {
                    group.note(None);
                    return Ok(lease);
                }
                Err(error) => error,
            };
            let next = Instant::now() + settings.retry_delay / 2 + jitter(settings.retry_delay);
            group.note(Some((error.clone(), next)));
            if next >= end {
                return Err(error);
            }
            // Woken or not, it asks.
            let _ = timeout_at(next, group.freed.notified()).await;
        }
    }

    /// Wakes those who wait for this resource among others: a lease was released.
    pub(super) fn wake(&self, resource: &Resource) {
        for (wanted, group) in &*self.groups() {
            if wanted.resources().contains(resource)
                && let Some(group) = group.upgrade()
            {
                group.freed.notify_one();
            }
        }
    }

    fn groups(&self) -> MutexGuard<'_, HashMap<Wanted, Weak<Group>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the queue of a list. It is forgotten when it is empty.
    fn of(&self, wanted: Wanted) -> Arc<Group> {
        let mut groups = self.groups();
        if let Some(group) = groups.get(&wanted).and_then(Weak::upgrade) {
            return group;
        }
        if groups.len() >= 64 && groups.len().is_power_of_two() {
            groups.retain(|_, group| group.strong_count() > 0);
        }
        let group = Arc::<Group>::default();
        groups.insert(wanted, Arc::downgrade(&group));
        group
    }
}
