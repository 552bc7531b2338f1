use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencing::time::{Clock, SystemClock, Time};

/// When something was seen: by a clock that only runs forward, also while the machine sleeps, and by the one on
/// the wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    time: Time,
    wall: u64,
}

impl Moment {
    pub(super) fn now() -> Moment {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment::of(SystemClock.now(), wall.as_secs())
    }

    /// The moment when the two clocks show this, the second one in seconds since 1970.
    pub(super) fn of(time: Time, wall: u64) -> Moment {
        Moment { time, wall }
    }

    /// How long ago it was.
    pub(super) fn age(self, now: Moment) -> Duration {
        now.time.since(self.time)
    }

    /// The time of day, in UTC.
    pub(super) fn clock(self) -> String {
        let second = self.wall % 86_400;
        format!("{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
    }
}

/// Writes a time for people, in its two largest units.
pub(super) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_for_people() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m00s"),
            (3599, "59m59s"),
            (3600, "1h00m"),
            (86_400, "1d00h"),
            (1_000_000, "11d13h"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
        let after =
            |seconds| Moment::of(Time::from_start(Duration::from_secs(seconds)), seconds + 43_200);
        assert_eq!(after(62).clock(), "12:01:02Z");
        assert_eq!(after(2).age(after(5)), Duration::from_secs(3));
        assert_eq!(after(5).age(after(2)), Duration::ZERO);
    }
}
