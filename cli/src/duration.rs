use std::time::Duration;

/// Reads `500ms`, `2s`, `1m` or `1h`: a whole number and its unit.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || "give a whole number with a unit, like 500ms, 2s, 1m or 1h".to_owned();
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (digits, unit) = text.split_at_checked(split).ok_or_else(wrong)?;
    if digits.is_empty() {
        return Err(wrong());
    }
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let number: Option<u64> = digits.parse().ok();
    let total = number.and_then(|number| number.checked_mul(millis));
    total.map(Duration::from_millis).ok_or_else(|| "the duration is too long".to_owned())
}

/// Reads an age: as [`parse`], and `90d` as well.
pub(crate) fn parse_age(text: &str) -> Result<Duration, String> {
    let Some(days) = text.strip_suffix('d') else { return parse(text) };
    let hours = days.parse::<u64>().ok().and_then(|days| days.checked_mul(24));
    let hours = hours.filter(|_| !days.starts_with('+'));
    hours.map_or_else(
        || Err("give a whole number with a unit, like 90d or 12h".to_owned()),
        |hours| parse(&format!("{hours}h")),
    )
}

/// Writes a duration as it is read, to the millisecond.
pub(crate) fn show(duration: Duration) -> String {
    match duration.as_millis() {
        millis if millis % 1000 == 0 => format!("{}s", millis / 1000),
        millis => format!("{millis}ms"),
    }
}

/// Writes a duration for a person who waits, as in `59m 57s`: from a second on, in whole seconds, rounded up.
pub(crate) fn about(duration: Duration) -> String {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    match duration.as_millis() {
        millis @ ..1000 => format!("{millis}ms"),
        _ => humantime::format_duration(Duration::from_secs(seconds)).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse("1m"), Ok(Duration::from_secs(60)));
        assert_eq!(parse("1h"), Ok(Duration::from_secs(3600)));
        for text in
            ["", "5", "s", "-1s", "+1s", "1.5s", "1 s", "1S", "1d", "１s", "99999999999999999999s"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("18446744073709551615h"), Err("the duration is too long".into()));
    }

    #[test]
    fn an_age_may_have_days() {
        assert_eq!(parse_age("90d"), parse("2160h"));
        assert_eq!(parse_age("0s"), Ok(Duration::ZERO));
        for text in ["d", "-1d", "+1d", "1.5d", "1w", "9", "99999999999999999999d"] {
            assert!(parse_age(text).is_err(), "{text}");
        }
        assert_eq!(parse_age("18446744073709551d"), Err("the duration is too long".into()));
    }

    #[test]
    fn and_written() {
        assert_eq!(show(Duration::from_secs(90)), "90s");
        assert_eq!(show(Duration::from_millis(1500)), "1500ms");
        assert_eq!(about(Duration::from_millis(1500)), "2s");
        assert_eq!(about(Duration::from_millis(3_596_999)), "59m 57s");
        assert_eq!(about(Duration::from_millis(999)), "999ms");
    }
}
