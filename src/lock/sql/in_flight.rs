use std::collections::HashMap;

use fencing_protocol::Resource;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The statements of this process in flight to the database, by resource.
///
/// Statements take any connection of the pool, in any order. A caller that drops a lease, or an attempt, and
/// asks again must not be delayed by its own release.
pub(super) struct InFlight {
    by_resource: Mutex<HashMap<Resource, Vec<watch::Receiver<()>>>>,
    /// All statements, and those for which nobody has to wait: notifications, drains, releases that are tried again. It
    /// is closed.
    pub(super) all: TaskTracker,
}

/// A statement in flight, until it is dropped.
pub(super) struct InFlightStatement {
    _ends: watch::Sender<()>,
    _counted: TaskTrackerToken,
}

impl InFlight {
    pub(super) fn new() -> InFlight {
        let all = TaskTracker::new();
        all.close();
        InFlight { by_resource: Mutex::default(), all }
    }

    pub(super) fn enter(&self, resource: &Resource) -> InFlightStatement {
        let (ends, receiver) = watch::channel(());
        let mut resources = self.by_resource.lock();
        if resources.len() >= 64 && resources.len().is_power_of_two() {
            resources.retain(|_, receivers| receivers.iter().any(is_in_flight));
        }
        let receivers = resources.entry(resource.clone()).or_default();
        receivers.retain(is_in_flight);
        receivers.push(receiver);
        InFlightStatement { _ends: ends, _counted: self.all.token() }
    }

    /// Waits for the end of all statements that are in flight for the resource now.
    pub(super) async fn clear(&self, resource: &Resource) {
        let ahead = self.by_resource.lock().get(resource).cloned().unwrap_or_default();
        for mut receiver in ahead {
            while receiver.changed().await.is_ok() {}
        }
    }
}

fn is_in_flight(receiver: &watch::Receiver<()>) -> bool {
    receiver.has_changed().is_ok()
}
