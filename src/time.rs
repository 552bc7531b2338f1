//! Clocks: the system clock, and a manual clock for tests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use fencing_protocol::Time;

/// A clock that never goes backwards.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Returns what the clock shows now: never less than an earlier reading.
    fn now(&self) -> Time;
}

/// The clock of the machine.
///
/// On Linux and Android it is `CLOCK_BOOTTIME`, which runs while the machine is suspended: a lease does not survive a
/// suspend. Elsewhere it is [`std::time::Instant`], which may stand still meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn now(&self) -> Time {
        let reading = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Time::from_start(reading.try_into().unwrap_or_default())
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
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time::from_start(Duration::from_nanos(self.0.load(Ordering::SeqCst)))
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
    fn the_manual_clock_obeys() {
        let clock = ManualClock::default();
        let other = clock.clone();
        clock.advance(Duration::from_secs(3));
        assert_eq!(other.now(), Time::from_start(Duration::from_secs(3)));
    }
}
