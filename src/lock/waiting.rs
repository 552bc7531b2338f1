use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Mutex as FairMutex;

use crate::Resource;

/// The local queues: within a process one contender per resource goes on the wire, and
/// the others wait behind it in the order in which they came.
#[derive(Default)]
pub(super) struct Queues(Mutex<HashMap<Resource, Weak<FairMutex<()>>>>);

impl Queues {
    /// The queue of a resource. It is forgotten when nobody waits in it.
    pub(super) fn of(&self, resource: &Resource) -> Arc<FairMutex<()>> {
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
