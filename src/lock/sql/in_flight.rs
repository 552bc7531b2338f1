use std::collections::HashMap;

use fencing_protocol::Resource;
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The statements of this process in flight to the database, by resource.
///
/// Statements take any connection of the pool, in any order. A caller that drops a lease, or an attempt, and
/// asks again must not be delayed by its own release.
pub(super) struct InFlight {
    by_resource: Mutex<HashMap<Resource, Vec<CancellationToken>>>,
    /// All statements, and those for which nobody has to wait: notifications, drains, releases that are tried again.
    pub(super) all: TaskTracker,
}

/// A statement in flight, until it is dropped.
pub(super) struct InFlightStatement {
    _ends: DropGuard,
    _counted: TaskTrackerToken,
}

impl InFlight {
    pub(super) fn new() -> InFlight {
        InFlight { by_resource: Mutex::default(), all: TaskTracker::new() }
    }

    pub(super) fn enter(&self, resource: &Resource) -> InFlightStatement {
        let ended = CancellationToken::new();
        let mut resources = self.by_resource.lock();
        if resources.len() >= 64 && resources.len().is_power_of_two() {
            resources.retain(|_, statements| statements.iter().any(|ended| !ended.is_cancelled()));
        }
        let statements = resources.entry(resource.clone()).or_default();
        statements.retain(|ended| !ended.is_cancelled());
        statements.push(ended.clone());
        InFlightStatement { _ends: ended.drop_guard(), _counted: self.all.token() }
    }

    /// Waits for the end of all statements that are in flight for the resource now.
    pub(super) async fn clear(&self, resource: &Resource) {
        let ahead = self.by_resource.lock().get(resource).cloned().unwrap_or_default();
        for ended in ahead {
            ended.cancelled().await;
        }
    }
}
