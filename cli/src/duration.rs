use std::time::Duration;

pub(crate) use fencing_protocol::about;
use humantime::format_duration;

/// A thousand years. Sums of longer ones would overflow.
const MAX: Duration = Duration::from_secs(1000 * 365 * 24 * 3600);

/// Reads `500ms`, `2s`, `1h 30m` or `90d`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration <= MAX => Ok(duration),
        Ok(_) => Err("the duration is too long".to_owned()),
        Err(error) => Err(format!("{error}: give a number with a unit, like 500ms, 2s, 1m or 1h")),
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Writes a duration in whole milliseconds, in one word as on a command line: `1m30s`.
pub(crate) fn show(duration: Duration) -> String {
    format_duration(Duration::from_millis(millis(duration))).to_string().replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, millis) in [("500ms", 500), ("2s", 2000), ("1h", 3_600_000), ("0s", 0)] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("90d"), parse("2160h"));
        for text in ["", "5", "s", "-1s", "+1s", "1S", "１s", "1001years", "99999999999999999999s"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(show(Duration::from_secs(90)), "1m30s");
        for (millis, text) in [(300, "300ms"), (1500, "2s"), (3_596_999, "59m 57s"), (0, "0ms")] {
            assert_eq!(about(Duration::from_millis(millis)), text);
        }
    }
}
