use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Mutex as FairMutex;
use tokio::time::{Instant, sleep, timeout_at};

use super::settings::Settings;
use super::sleep::jitter;
use super::{AcquireError, Lease};
use crate::Resource;

/// The local queues: within a process one contender per resource goes on the wire, and
/// the others wait behind it in the order in which they came.
#[derive(Default)]
pub(super) struct Queues(Mutex<HashMap<Resource, Weak<Queue>>>);

#[derive(Default)]
struct Queue {
    turn: FairMutex<()>,
    /// What the contender on the wire was told last.
    last: Mutex<Option<AcquireError>>,
}

impl Queue {
    fn last(&self) -> MutexGuard<'_, Option<AcquireError>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    /// Attempts until one succeeds or the wait limit is reached, in the order of the queue.
    pub(super) async fn acquire<F>(
        &self,
        resource: &Resource,
        settings: &Settings,
        attempt: impl Fn() -> F,
    ) -> Result<Lease, AcquireError>
    where
        F: Future<Output = Result<Lease, AcquireError>>,
    {
        let end = Instant::now() + settings.wait;
        let queue = self.of(resource);
        let Ok(_turn) = timeout_at(end, queue.turn.lock()).await else {
            // All who waited here in vain were told the same: they must not ask all at once.
            let told = queue.last().clone();
            return match told {
                Some(error) => Err(error),
                None => attempt().await,
            };
        };
        loop {
            let outcome = attempt().await;
            *queue.last() = outcome.as_ref().err().cloned();
            let error = match outcome {
                Ok(lease) => return Ok(lease),
                Err(error) => error,
            };
            let pause = settings.retry_delay / 2 + jitter(settings.retry_delay);
            if Instant::now() + pause >= end {
                return Err(error);
            }
            sleep(pause).await;
        }
    }

    /// The queue of a resource. It is forgotten when nobody waits in it.
    fn of(&self, resource: &Resource) -> Arc<Queue> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(resource).and_then(Weak::upgrade) {
            return queue;
        }
        if queues.len() >= 64 && queues.len().is_power_of_two() {
            queues.retain(|_, queue| queue.strong_count() > 0);
        }
        let queue = Arc::<Queue>::default();
        queues.insert(resource.clone(), Arc::downgrade(&queue));
        queue
    }
}
