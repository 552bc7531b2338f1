use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between two lines of the same warning.
const INTERVAL: Duration = Duration::from_secs(10);

/// Bounds how often a warning is written: at once, and then every ten seconds at most.
#[derive(Default)]
pub(crate) struct LogThrottle {
    last: Option<Instant>,
    /// The number suppressed since then.
    suppressed: u64,
}

impl LogThrottle {
    /// Returns how many warnings were not written since the last one, if this one may be.
    pub(crate) fn next(&mut self) -> Option<u64> {
        if self.last.is_some_and(|last| last.elapsed() < INTERVAL) {
            self.suppressed += 1;
            return None;
        }
        self.last = Some(Instant::now());
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_warning_is_written_at_once_and_then_rarely() {
        let mut throttle = LogThrottle::default();
        let mut written = Vec::new();
        // Eleven in two seconds, for a minute.
        for _ in 0..330 {
            written.extend(throttle.next());
            tokio::time::advance(Duration::from_millis(182)).await;
        }
        assert_eq!(written, [0, 54, 54, 54, 54, 54]);
    }
}
