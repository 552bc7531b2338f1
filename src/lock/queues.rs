use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Mutex as FairMutex;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::settings::Settings;
use super::{AcquireError, Lease};
use crate::random::jitter;
use crate::resource::Resource;

/// The local queues. Within a process one contender per resource asks the servers, and the
/// others wait behind it in the order in which they came.
#[derive(Default)]
pub(super) struct Queues(Mutex<HashMap<Resource, Weak<Queue>>>);

#[derive(Default)]
struct Queue {
    turn: FairMutex<()>,
    /// The last error that the contender got, and when the next may ask.
    last_error: Mutex<Option<(AcquireError, Instant)>>,
}

impl Queue {
    fn last_error(&self) -> Option<(AcquireError, Instant)> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_last_error(&self, error: Option<(AcquireError, Instant)>) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

impl Queues {
    /// Makes attempts until one succeeds or the wait limit is reached, in the order of the queue.
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
        let _turn = match queue.turn.try_lock() {
            Ok(turn) => turn,
            // All who wait here get the contender's error: they must not ask all at once, nor
            // one after another when the contender gives up.
            Err(_) => match (timeout_at(end, queue.turn.lock()).await, queue.last_error()) {
                (Err(_), None) => return attempt().await,
                (Err(_), Some((error, _))) => return Err(error),
                (Ok(_), Some((error, next))) if next >= end => return Err(error),
                (Ok(turn), Some((_, next))) => {
                    sleep_until(next).await;
                    turn
                }
                (Ok(turn), None) => turn,
            },
        };
        loop {
            let error = match attempt().await {
                Ok(lease) => {
                    queue.set_last_error(None);
                    return Ok(lease);
                }
                Err(error) => error,
            };
            let next = Instant::now() + settings.retry_delay / 2 + jitter(settings.retry_delay);
            queue.set_last_error(Some((error.clone(), next)));
            if next >= end {
                return Err(error);
            }
            sleep_until(next).await;
        }
    }

    /// Returns the queue of a resource. It is forgotten when it is empty.
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
