use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::FenceError;
use crate::log_throttle::LogThrottle;

/// Counts how admissions end, and logs the refusals. A client that does not know that its lease is lost
/// may send thousands.
#[derive(Default)]
pub(super) struct Outcomes(Mutex<BTreeMap<&'static str, LogThrottle>>);

impl Outcomes {
    /// Notes how an admission ended, and how long it took: zero if it had to wait for nothing. Each kind of
    /// refusal is a warning every ten seconds at most, and a line for debugging in between.
    pub(super) fn note(&self, took: Duration, refusal: Option<&FenceError>) {
        metrics::histogram!("fencing_admission_seconds").record(took.as_secs_f64());
        let Some(error) = refusal else {
            // Both labels are constant, and so nothing is allocated.
            metrics::counter!("fencing_admissions_total", "layer" => "fence", "outcome" => "admitted").increment(1);
            return;
        };
        let label = error.label();
        metrics::counter!("fencing_admissions_total", "layer" => "fence", "outcome" => label).increment(1);
        let next = self.0.lock().entry(label).or_default().next();
        match next {
            Some(suppressed) => tracing::warn!(%error, suppressed, "request not admitted"),
            None => tracing::debug!(%error, "request not admitted"),
        }
    }
}
