use std::future::Future;
use std::time::Instant;

use scopeguard::{ScopeGuard, guard};

use crate::lock::error::AcquireError;

/// A lease that counts as held in the metrics, until this is dropped.
pub(super) type HeldGauge = ScopeGuard<Instant, fn(Instant)>;

/// Counts a lease as held.
pub(super) fn held_gauge() -> HeldGauge {
    metrics::gauge!("fencing_leases").increment(1.0);
    guard(Instant::now(), |since| {
        metrics::gauge!("fencing_leases").decrement(1.0);
        metrics::histogram!("fencing_hold_seconds").record(since.elapsed());
    })
}

/// Counts a caller that may wait for a lock, and how long it took. A caller that gives up counts as `cancelled`.
pub(super) async fn waited<T>(acquired: impl Future<Output = Result<T, AcquireError>>) -> Result<T, AcquireError> {
    metrics::gauge!("fencing_waiting").increment(1.0);
    let since = Instant::now();
    let mut outcome = guard("cancelled", move |outcome| {
        metrics::gauge!("fencing_waiting").decrement(1.0);
        metrics::histogram!("fencing_wait_seconds", "outcome" => outcome).record(since.elapsed());
    });
    let acquired = acquired.await;
    *outcome = acquired.as_ref().err().map_or("acquired", AcquireError::label);
    acquired
}
