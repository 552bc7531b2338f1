//! The clocks: that of the machine, and one that a test moves by hand.

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A reading of a monotonic [`Clock`], in nanoseconds since an arbitrary beginning.
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

/// A clock that never goes backwards.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Returns what the clock shows now: never less than an earlier reading.
    fn now(&self) -> Time;
}

/// The clock of the machine.
///
/// On Linux and Android it is `CLOCK_BOOTTIME`, which goes on while the machine is
/// suspended: a lease does not survive a closed lid. Elsewhere it is
/// [`std::time::Instant`], which may stand still meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn now(&self) -> Time {
        let reading = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(reading.tv_sec).unwrap_or(0);
        let rest = u64::try_from(reading.tv_nsec).unwrap_or(0);
        Time(seconds.saturating_mul(1_000_000_000).saturating_add(rest))
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn now(&self) -> Time {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        Time::from_start(START.get_or_init(std::time::Instant::now).elapsed())
    }
}

/// A clock for tests, which moves only when you move it. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Moves the clock and its clones forward by this long.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(nanos(by), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_moves_forward() {
        let before = SystemClock.now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(SystemClock.now().since(before) >= Duration::from_millis(2));
    }

    #[test]
    fn arithmetic_saturates() {
        let start = Time::default();
        assert_eq!(start - Duration::MAX, start);
        assert_eq!((start + Duration::MAX).since(start), Duration::from_nanos(u64::MAX));
        assert_eq!(start.since(start + Duration::from_secs(1)), Duration::ZERO);
    }

    #[test]
    fn the_manual_clock_obeys() {
        let clock = ManualClock::default();
        let other = clock.clone();
        clock.advance(Duration::from_secs(3));
        assert_eq!(other.now(), Time::from_start(Duration::from_secs(3)));
    }
}
