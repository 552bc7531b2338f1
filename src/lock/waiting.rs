use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Mutex as FairMutex;
use tokio::time::{Instant, sleep, timeout_at};

use super::settings::Settings;
use super::sleep::jitter;
use super::{AcquireError, Lease};
use crate::Resource;

/// The local queues: within a process one contender per resource goes on the wire, and
/// the others wait behind it in the order in which they came.
#[derive(Default)]
pub(super) struct Queues(Mutex<HashMap<Resource, Weak<FairMutex<()>>>>);

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
        // Whoever waited here in vain asks once for itself, to tell held from down.
        let Ok(_turn) = timeout_at(end, queue.lock()).await else { return attempt().await };
        loop {
            let error = match attempt().await {
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
    fn of(&self, resource: &Resource) -> Arc<FairMutex<()>> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(resource).and_then(Weak::upgrade) {
            return queue;
        }
        if queues.len() >= 64 && queues.len().is_power_of_two() {
            queues.retain(|_, queue| queue.strong_count() > 0);
        }
        let queue = Arc::new(FairMutex::new(()));
        queues.insert(resource.clone(), Arc::downgrade(&queue));
        queue
    }
}
