use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::FenceError;
use crate::log_throttle::LogThrottle;

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

/// Which refusals were logged lately. A client that does not know that it lost its lease may send thousands.
#[derive(Default)]
pub(super) struct Refusals(Mutex<BTreeMap<&'static str, LogThrottle>>);

impl Refusals {
    /// Notes how an admission ended, and how long it took: zero if it had to wait for nothing. Each kind of
    /// refusal is a warning every ten seconds at most, and a line for debugging in between.
    pub(super) fn note(&self, took: Duration, outcome: Result<(), &FenceError>) {
        metrics::histogram!("fencing_admission_seconds").record(took.as_secs_f64());
        let Err(error) = outcome else {
            // Both labels are constant, and so nothing is allocated.
            metrics::counter!(
                "fencing_admissions_total", "door" => "fence", "outcome" => "admitted"
            )
            .increment(1);
            return;
        };
        let label = error.label();
        metrics::counter!("fencing_admissions_total", "door" => "fence", "outcome" => label)
            .increment(1);
        let next =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(label).or_default().next();
        match next {
            Some(suppressed) => tracing::warn!(%error, suppressed, "request not admitted"),
            None => tracing::debug!(%error, "request not admitted"),
        }
    }
}
