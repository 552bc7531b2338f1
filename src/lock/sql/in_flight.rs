use std::collections::HashMap;

use fencing_protocol::Resource;
use parking_lot::Mutex;
use tokio::sync::watch;

/// The statements of this process in flight to the database, by resource.
///
/// Statements take any connection of the pool, in any order. A caller that drops a lease, or an attempt, and
/// asks again must not be delayed by its own release.
#[derive(Default)]
pub(super) struct InFlight(Mutex<HashMap<Resource, Vec<watch::Receiver<()>>>>);

/// A statement in flight, until it is dropped.
pub(super) struct InFlightStatement(
    #[allow(dead_code, reason = "its end is the signal")] watch::Sender<()>,
);

impl InFlight {
    pub(super) fn enter(&self, resource: &Resource) -> InFlightStatement {
        let (sender, receiver) = watch::channel(());
        let mut resources = self.0.lock();
        if resources.len() >= 64 && resources.len().is_power_of_two() {
            resources.retain(|_, receivers| receivers.iter().any(is_in_flight));
        }
        let receivers = resources.entry(resource.clone()).or_default();
        receivers.retain(is_in_flight);
        receivers.push(receiver);
        InFlightStatement(sender)
    }

    /// Waits for the end of all statements that are in flight for the resource now.
    pub(super) async fn clear(&self, resource: &Resource) {
        let ahead = self.0.lock().get(resource).cloned().unwrap_or_default();
        InFlight::ends(ahead).await;
    }

    /// Waits until nothing is in flight.
    pub(super) async fn over(&self) {
        loop {
            let all: Vec<_> = self.0.lock().values().flatten().cloned().collect();
            if !all.iter().any(is_in_flight) {
                return;
            }
            InFlight::ends(all).await;
        }
    }

    async fn ends(ahead: Vec<watch::Receiver<()>>) {
        for mut receiver in ahead {
            while receiver.changed().await.is_ok() {}
        }
    }
}

fn is_in_flight(receiver: &watch::Receiver<()>) -> bool {
    receiver.has_changed().is_ok()
}
