use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::resource::Resource;

/// What this process has under way to the database, by resource.
///
/// Statements go over any connection of the pool, in any order. Whoever drops a lease, or
/// an attempt, and asks anew is not to be held up by itself.
#[derive(Default)]
pub(super) struct InFlight(Mutex<HashMap<Resource, Vec<watch::Receiver<()>>>>);

/// Something under way, until it is dropped.
pub(super) struct InFlightStatement(
    #[allow(dead_code, reason = "its end is what tells")] watch::Sender<()>,
);

impl InFlight {
    pub(super) fn enter(&self, resource: &Resource) -> InFlightStatement {
        let (sender, receiver) = watch::channel(());
        let mut resources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if resources.len() >= 64 && resources.len().is_power_of_two() {
            resources.retain(|_, receivers| receivers.iter().any(is_underway));
        }
        let receivers = resources.entry(resource.clone()).or_default();
        receivers.retain(is_underway);
        receivers.push(receiver);
        InFlightStatement(sender)
    }

    /// Waits for the end of all that is under way now.
    pub(super) async fn clear(&self, resource: &Resource) {
        let ahead = {
            let resources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            resources.get(resource).cloned().unwrap_or_default()
        };
        for mut receiver in ahead {
            while receiver.changed().await.is_ok() {}
        }
    }
}

fn is_underway(receiver: &watch::Receiver<()>) -> bool {
    receiver.has_changed().is_ok()
}
