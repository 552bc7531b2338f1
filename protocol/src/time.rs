use std::ops::{Add, Sub};
use std::time::Duration;

/// A reading of a monotonic clock, in nanoseconds since an arbitrary beginning.
///
/// Compare readings of the same clock only. Arithmetic saturates: it never overflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// Returns the reading that is this long after the clock's beginning.
    #[must_use]
    pub fn from_start(elapsed: Duration) -> Time {
        Time(nanos(elapsed))
    }

    /// Returns how long after `earlier` this is, or zero if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Writes a duration for a person who waits, as in `59m 57s`: from a second on, in whole seconds, rounded up.
#[must_use]
pub fn about(duration: Duration) -> String {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    match duration.as_millis() {
        millis @ ..1000 => format!("{millis}ms"),
        _ => humantime::format_duration(Duration::from_secs(seconds)).to_string(),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    fn sub(self, duration: Duration) -> Time {
        Time(self.0.saturating_sub(nanos(duration)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_reads_hours_minutes_and_seconds() {
        assert_eq!(about(Duration::from_millis(999)), "999ms");
        assert_eq!(about(Duration::from_millis(1500)), "2s");
        assert_eq!(about(Duration::from_millis(3_596_999)), "59m 57s");
    }

    #[test]
    fn arithmetic_saturates() {
        let start = Time::default();
        assert_eq!(start - Duration::MAX, start);
        assert_eq!((start + Duration::MAX).since(start), Duration::from_nanos(u64::MAX));
        assert_eq!(start.since(start + Duration::from_secs(1)), Duration::ZERO);
    }
}
