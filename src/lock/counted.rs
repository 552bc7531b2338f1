use std::future::Future;
use std::time::Instant;

use crate::lock::error::AcquireError;

/// Counts a lease as held in the metrics, until this is dropped.
pub(super) struct Held(Instant);

impl Held {
    pub(super) fn new() -> Held {
        metrics::gauge!("fencing_leases").increment(1.0);
        Held(Instant::now())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        metrics::gauge!("fencing_leases").decrement(1.0);
        metrics::histogram!("fencing_hold_seconds").record(self.0.elapsed());
    }
}

/// One who may wait for a lock, in the metrics, until this is dropped.
struct Waiting {
    since: Instant,
    outcome: &'static str,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        metrics::gauge!("fencing_waiting").decrement(1.0);
        let took = self.since.elapsed();
        metrics::histogram!("fencing_wait_seconds", "outcome" => self.outcome).record(took);
    }
}

/// Counts a caller that may wait for a lock, and how long it took. A caller that gives up counts as `cancelled`.
pub(super) async fn waited<T>(
    acquired: impl Future<Output = Result<T, AcquireError>>,
) -> Result<T, AcquireError> {
    metrics::gauge!("fencing_waiting").increment(1.0);
    let mut waiting = Waiting { since: Instant::now(), outcome: "cancelled" };
    let acquired = acquired.await;
    waiting.outcome = acquired.as_ref().err().map_or("acquired", AcquireError::label);
    acquired
}
