use std::future::Future;
use std::time::Instant;

use crate::lock::error::AcquireError;

/// Counts a lease as held in the metrics, until this is dropped.
pub(super) struct HeldGauge(Instant);

impl HeldGauge {
    pub(super) fn new() -> HeldGauge {
        metrics::gauge!("fencing_leases").increment(1.0);
        HeldGauge(Instant::now())
    }
}

impl Drop for HeldGauge {
    fn drop(&mut self) {
        metrics::gauge!("fencing_leases").decrement(1.0);
        metrics::histogram!("fencing_hold_seconds").record(self.0.elapsed());
    }
}

/// Counts a caller that may wait for a lock in the metrics, until this is dropped.
struct WaitingGauge {
    since: Instant,
    outcome: &'static str,
}

impl Drop for WaitingGauge {
    fn drop(&mut self) {
        metrics::gauge!("fencing_waiting").decrement(1.0);
        let took = self.since.elapsed();
        metrics::histogram!("fencing_wait_seconds", "outcome" => self.outcome).record(took);
    }
}

/// Counts a caller that may wait for a lock, and how long it took. A caller that gives up counts as `cancelled`.
pub(super) async fn waited<T>(acquired: impl Future<Output = Result<T, AcquireError>>) -> Result<T, AcquireError> {
    metrics::gauge!("fencing_waiting").increment(1.0);
    let mut waiting = WaitingGauge { since: Instant::now(), outcome: "cancelled" };
    let acquired = acquired.await;
    waiting.outcome = acquired.as_ref().err().map_or("acquired", AcquireError::label);
    acquired
}
