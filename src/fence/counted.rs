use std::time::Duration;

use super::FenceError;

/// Counts a request as in flight in the metrics, until this is dropped.
pub(super) struct Counted(());

impl Counted {
    pub(super) fn new() -> Counted {
        metrics::gauge!("fencing_in_flight").increment(1.0);
        Counted(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::gauge!("fencing_in_flight").decrement(1.0);
    }
}

/// Notes how an admission ended, and how long it took: zero if it had to wait for nothing.
pub(super) fn admission(took: Duration, outcome: Result<(), &FenceError>) {
    metrics::histogram!("fencing_admission_seconds").record(took.as_secs_f64());
    let Err(error) = outcome else {
        // Both labels are constant, and so nothing is allocated.
        metrics::counter!(
            "fencing_admissions_total", "door" => "fence", "outcome" => "admitted"
        )
        .increment(1);
        return;
    };
    tracing::warn!(%error, "request not admitted");
    metrics::counter!("fencing_admissions_total", "door" => "fence", "outcome" => error.label())
        .increment(1);
}
