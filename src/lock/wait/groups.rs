use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use fencing_protocol::{NonEmpty, Resource};
use tokio::sync::{Mutex as FairMutex, Notify};
use tokio::time::{Instant, timeout_at};

use super::backoff::pause;
use crate::lock::error::{AcquireError, MOST};
use crate::lock::settings::Settings;

/// The local queues of those who wait for several resources. Within a process one contender for each
/// list asks the servers, and the others wait behind it in the order in which they came. A lease of
/// this process that is released wakes one contender that has its resource in its list: that which has
/// waited longest. If all asked at one time, their votes would split.
#[derive(Default)]
pub(crate) struct Groups(Mutex<HashMap<Wanted, Weak<Group>>>);

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Wanted {
    /// The first that is free, in this order.
    Any(NonEmpty<Resource>),
    /// All of them, in the order of their names and each of them once.
    All(NonEmpty<Resource>),
}

impl Wanted {
    pub(crate) fn any(resources: &[Resource]) -> Result<Wanted, AcquireError> {
        bounded(resources.to_vec()).map(Wanted::Any)
    }

    pub(crate) fn all(resources: &[Resource]) -> Result<Wanted, AcquireError> {
        let mut resources = resources.to_vec();
        resources.sort_unstable();
        resources.dedup();
        bounded(resources).map(Wanted::All)
    }

    pub(crate) fn resources(&self) -> &NonEmpty<Resource> {
        let (Wanted::Any(resources) | Wanted::All(resources)) = self;
        resources
    }
}

fn bounded(resources: Vec<Resource>) -> Result<NonEmpty<Resource>, AcquireError> {
    let count = resources.len();
    let wrong = AcquireError::WrongCount { count, most: MOST };
    NonEmpty::from_vec(resources).filter(|_| count <= MOST).ok_or(wrong)
}

/// The queue of one list.
#[derive(Default)]
struct Group {
    turn: FairMutex<()>,
    /// Wakes the contender.
    freed: Notify,
    /// Since when the contender has waited, if there is one.
    since: Mutex<Option<Instant>>,
    /// The last error that the contender got, and when the next may ask.
    last_error: Mutex<Option<(AcquireError, Instant)>>,
}

/// A contender, until this is dropped.
struct Acquirer<'a>(&'a Group);

impl Drop for Acquirer<'_> {
    fn drop(&mut self) {
        self.0.set_since(None);
    }
}

impl Group {
    fn contend(&self, since: Instant) -> Acquirer<'_> {
        self.set_since(Some(since));
        Acquirer(self)
    }

    fn since(&self) -> Option<Instant> {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_since(&self, since: Option<Instant>) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    fn last_error(&self) -> Option<(AcquireError, Instant)> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, error: Option<(AcquireError, Instant)>) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

impl Groups {
    /// Makes attempts until one succeeds or the wait limit is reached, in the order of the queue.
    pub(crate) async fn acquire<F, L>(
        &self,
        wanted: Wanted,
        settings: &Settings,
        attempt: impl Fn() -> F,
    ) -> Result<L, AcquireError>
    where
        F: Future<Output = Result<L, AcquireError>>,
    {
        let since = Instant::now();
        let end = since + settings.wait;
        let group = self.of(wanted);
        let (_turn, after) = match group.turn.try_lock() {
            Ok(turn) => (turn, None),
            // Those who wait here get the contender's error: they must not ask all at once, nor one
            // after another when the contender gives up.
            Err(_) => match (timeout_at(end, group.turn.lock()).await, group.last_error()) {
                (Err(_), None) => return attempt().await,
                (Err(_), Some((error, _))) => return Err(error),
                (Ok(_), Some((error, next))) if next >= end => return Err(error),
                (Ok(turn), Some((_, next))) => (turn, Some(next)),
                (Ok(turn), None) => (turn, None),
            },
        };
        let _contender = group.contend(since);
        if let Some(next) = after {
            let _ = timeout_at(next, group.freed.notified()).await;
        }
        loop {
            let error = match attempt().await {
                Ok(lease) => {
                    group.note(None);
                    return Ok(lease);
                }
                Err(error) => error,
            };
            let (now, pause) = (Instant::now(), pause(settings));
            group.note(Some((error.clone(), now + pause)));
            if now + pause >= end {
                return Err(error);
            }
            // Those who wait for the same resource ask as often as one would.
            let beside = match &error {
                AcquireError::Held { resource, .. } => self.contenders(resource).len().max(1),
                _ => 1,
            };
            let pause = pause.saturating_mul(u32::try_from(beside).unwrap_or(u32::MAX));
            let last = end.checked_sub(settings.retry_delay / 2).unwrap_or(now);
            // Woken or not, it asks.
            let _ = timeout_at((now + pause).min(last.max(now)), group.freed.notified()).await;
        }
    }

    /// Wakes one who waits for this resource among others: a lease was released.
    pub(crate) fn wake(&self, resource: &Resource) {
        let contenders = self.contenders(resource);
        if let Some((_, group)) = contenders.iter().min_by_key(|(since, _)| *since) {
            group.freed.notify_one();
        }
    }

    /// Returns those who wait for this resource among others, and since when.
    fn contenders(&self, resource: &Resource) -> Vec<(Instant, Arc<Group>)> {
        let of = |(wanted, group): (&Wanted, &Weak<Group>)| {
            let group = group.upgrade().filter(|_| wanted.resources().contains(resource))?;
            Some((group.since()?, group))
        };
        self.groups().iter().filter_map(of).collect()
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
