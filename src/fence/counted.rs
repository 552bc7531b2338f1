use std::time::Duration;

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

/// Notes how long an admission took, also if it was refused.
pub(super) fn waited(time: Duration) {
    metrics::histogram!("fencing_admission_seconds").record(time.as_secs_f64());
}
