use std::time::Duration;

use tokio::time::Instant;

use crate::lock::settings::Settings;
use crate::random::jitter;

/// The longest pause between two attempts, in retry delays, where servers notify of releases.
const MAX_DELAYS_NOTIFIED: u32 = 10;
/// The same where they do not, and a client finds out about a release by asking.
const MAX_DELAYS_POLLING: u32 = 2;

/// The longest delay, if the retry delay is not longer: a pause is up to half as long again. A node forgets a
/// waiter after a minute, and the next attempt registers it again.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Returns the pause of a waiter after a failed attempt, which grows with the `attempts` before. It ends with the lock
/// at the latest, give or take a retry delay: the waiters must not all ask at that moment.
pub(crate) fn growing_pause(
    settings: &Settings,
    attempts: u32,
    retry_after: Option<Duration>,
    notified: bool,
) -> Duration {
    let longest = if notified { MAX_DELAYS_NOTIFIED } else { MAX_DELAYS_POLLING };
    let delay = delays(settings, 2_u32.saturating_pow(attempts).min(longest));
    let pause = delay / 2 + jitter(delay);
    match retry_after {
        Some(left) if !left.is_zero() => pause.min(left.saturating_add(jitter(settings.retry_delay))),
        _ => pause,
    }
}

/// Returns this many retry delays, up to the longest delay.
fn delays(settings: &Settings, times: u32) -> Duration {
    settings.retry_delay.saturating_mul(times).min(MAX_DELAY.max(settings.retry_delay))
}

/// Returns for how long a waiter for an exclusive lease keeps others from joining a shared one: until it asks
/// again, and the request has taken its `way`, or until its wait ends.
pub(crate) fn draining(settings: &Settings, way: Duration, end: Instant) -> Duration {
    let again = delays(settings, MAX_DELAYS_NOTIFIED).saturating_mul(3) / 2 + way;
    again.min(end.saturating_duration_since(Instant::now()))
}

/// Returns a pause of one retry delay, give or take a half.
pub(crate) fn pause(settings: &Settings) -> Duration {
    settings.retry_delay / 2 + jitter(settings.retry_delay)
}
