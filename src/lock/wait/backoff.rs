use std::time::Duration;

use tokio::time::Instant;

use crate::lock::settings::Settings;
use crate::random::jitter;

/// The longest pause between two attempts, in retry delays, where the servers tell of releases.
const LONGEST_TOLD: u32 = 10;
/// The same where they do not: a release is found out by asking.
const LONGEST_UNTOLD: u32 = 2;

/// The longest delay, if the retry delay is not longer: a pause is up to half as long again.
const LONGEST_NOTED: Duration = Duration::from_secs(30);

/// The pauses of one who waits for a lock, which grow.
#[derive(Default)]
pub(crate) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// Returns the pause after one more attempt in vain. It is not longer than the lock lasts, give or
    /// take a retry delay: not all who wait may ask at that moment.
    pub(crate) fn next(
        &mut self,
        settings: &Settings,
        retry_after: Option<Duration>,
        told: bool,
    ) -> Duration {
        let longest = if told { LONGEST_TOLD } else { LONGEST_UNTOLD };
        let times = 2_u32.saturating_pow(self.attempts).min(longest);
        self.attempts = self.attempts.saturating_add(1);
        // A node forgets after a minute that somebody waits: it is told again before.
        let longest = LONGEST_NOTED.max(settings.retry_delay);
        let delay = settings.retry_delay.saturating_mul(times).min(longest);
        let pause = delay / 2 + jitter(delay);
        match retry_after {
            Some(left) if !left.is_zero() => {
                pause.min(left.saturating_add(jitter(settings.retry_delay)))
            }
            _ => pause,
        }
    }
}

/// For how long one who waits to hold a lock alone keeps others from joining those who share it.
#[derive(Clone, Copy)]
pub(crate) struct Drains {
    longest: Duration,
    end: Instant,
}

impl Drains {
    /// Until it asks again, the request takes `way` at most, or until its wait ends.
    pub(crate) fn new(settings: &Settings, way: Duration, end: Instant) -> Drains {
        let longest = LONGEST_NOTED.max(settings.retry_delay);
        let pause = settings.retry_delay.saturating_mul(LONGEST_TOLD).min(longest);
        Drains { longest: pause.saturating_mul(3) / 2 + way, end }
    }

    /// Returns for how long from now on.
    pub(crate) fn lasting(&self) -> Duration {
        self.longest.min(self.end.saturating_duration_since(Instant::now()))
    }
}

/// Returns a pause of one retry delay, give or take a half.
pub(crate) fn pause(settings: &Settings) -> Duration {
    settings.retry_delay / 2 + jitter(settings.retry_delay)
}
