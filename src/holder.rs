use std::env::{self, VarError};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencing_protocol::{EPOCH, Owner};

/// The environment variable with the name of a client that was given none.
const VARIABLE: &str = "FENCING_HOLDER";
/// The longest name, in bytes.
const MAX_LEN: usize = 64;
/// The longest name of `host:pid`. With its owner it has 63 bytes: longer members of a sorted set take a part of
/// a shared lock out of the compact form, which is several times as large.
const MAX_OWN_LEN: usize = 30;
/// How far ahead another machine's clock may be, so that what it says is still shown.
const AHEAD: Duration = Duration::from_secs(24 * 60 * 60);

/// The holder of a lock, as it names itself, with its own clock.
///
/// For display only. A client may choose any name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The name that was given to the holder's lock service, or `host:pid`. `None` where none is
    /// kept: for locks that are shared on MySQL and MariaDB, and for locks that were made by hand.
    pub name: Option<String>,
    /// When the holder asked for the lock, by the clock of its own machine. `None` if the time is implausible.
    pub since: Option<SystemTime>,
}

impl Holder {
    /// Reads the value of a lock: an owner, and perhaps its name. A dot at the end says that it was released
    /// early, and stays held for the rest of its time. Other clients may have written anything there.
    pub(crate) fn read(text: &str) -> Option<Holder> {
        let (owner, rest) = text.split_at_checked(32)?;
        let since = since(Owner::parse(owner)?);
        let rest = rest.strip_suffix('.').unwrap_or(rest);
        let name = match rest.strip_prefix(' ') {
            Some(name) => Some(checked_name(name).ok()?),
            None if rest.is_empty() => None,
            None => return None,
        };
        (name.is_some() || since.is_some()).then_some(Holder { name, since })
    }

    /// Returns when the holder asked for the lock as text, in UTC, as in `2026-03-01T12:00:00Z`.
    pub fn since_utc(&self) -> Option<String> {
        Some(humantime::format_rfc3339_seconds(self.since?).to_string())
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_deref().unwrap_or("unknown holder"))?;
        self.since_utc().map_or(Ok(()), |since| write!(f, " since {since}"))
    }
}

/// Returns a name under which locks may be held: 1 to 64 bytes of printable ASCII, no spaces, quotation marks and
/// backslashes, and no dot at the end.
pub(crate) fn checked_name(name: &str) -> Result<String, String> {
    let fits = !name.is_empty() && name.len() <= MAX_LEN && name.bytes().all(is_fit);
    if fits && !name.ends_with('.') {
        return Ok(name.to_owned());
    }
    let shown: String = name.chars().take(MAX_LEN).collect();
    Err(format!(
        "{shown:?} is not a valid holder name: give 1 to {MAX_LEN} bytes of printable ASCII, without spaces, quotation \
         marks or backslashes, and without a dot at the end"
    ))
}

/// Returns the name that the environment gives this process, or else `host:pid`.
pub(crate) fn own_name() -> Result<String, String> {
    match env::var(VARIABLE) {
        Ok(name) if !name.is_empty() => checked_name(&name).map_err(|problem| format!("{VARIABLE}: {problem}")),
        Err(VarError::NotUnicode(_)) => Err(format!("{VARIABLE} is not valid UTF-8")),
        _ => Ok(process_name()),
    }
}

pub(crate) fn process_name() -> String {
    let system = rustix::system::uname();
    of_process(&system.nodename().to_string_lossy(), std::process::id())
}

/// Of a long name the end is kept: it distinguishes the copies of one service.
fn of_process(host: &str, process: u32) -> String {
    let host: String = host.chars().filter(|c| u8::try_from(*c).is_ok_and(is_fit)).collect();
    let process = format!(":{process}");
    let cut = (host.len() + process.len()).saturating_sub(MAX_OWN_LEN);
    format!("{}{process}", host.get(cut..).unwrap_or_default())
}

fn is_fit(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\')
}

/// Returns when an owner was drawn: the milliseconds since 1970 are its first 48 bits. Owners that were drawn
/// in some other way seldom say what can be true.
fn since(owner: Owner) -> Option<SystemTime> {
    let since = Duration::from_millis(u64::try_from(owner.0 >> 80).ok()?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since >= EPOCH && since <= now + AHEAD).then(|| UNIX_EPOCH + since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    #[test]
    fn copies_of_one_service_have_names_of_their_own() {
        let pod = "billing-worker-nightly-7d9f8b6c5d-x2x1z";
        assert_eq!(of_process(pod, 17), "er-nightly-7d9f8b6c5d-x2x1z:17");
        assert_eq!(of_process("db 1", 17), "db1:17");
    }

    #[test]
    fn what_stands_in_a_lock_is_read() {
        let owner = Owner(random::timestamped());
        let before = SystemTime::now() - Duration::from_secs(60);
        for (text, name) in [
            (format!("{owner} billing-7"), Some("billing-7")),
            (format!("{owner} host.example:17"), Some("host.example:17")),
            (format!("{owner} billing-7."), Some("billing-7")),
            (format!("{owner}"), None),
            (format!("{owner}."), None),
        ] {
            let holder = Holder::read(&text).unwrap();
            assert_eq!(holder.name.as_deref(), name, "{text}");
            assert!(holder.since.unwrap() > before, "{text}");
        }
        // An owner of some other kind, and its name.
        let holder = Holder::read(&format!("{} a", Owner(7))).unwrap();
        assert_eq!((holder.name.as_deref(), holder.since), (Some("a"), None));
        assert_eq!(holder.to_string(), "a");
    }

    #[test]
    fn what_no_client_writes_there_names_nobody() {
        let owner = Owner(random::timestamped());
        let long = "x".repeat(65);
        for text in [
            String::new(),
            "by hand".into(),
            "ä".repeat(20),
            Owner(7).to_string(),
            format!("{owner}x"),
            format!("{owner} "),
            format!("{owner} a b"),
            format!("{owner} {long}"),
            format!("{owner} a\u{1b}[2J"),
        ] {
            assert_eq!(Holder::read(&text), None, "{text:?}");
        }
    }

    #[test]
    fn names_are_short_and_plain() {
        let longest = "x".repeat(MAX_LEN);
        for name in ["billing-7", "host.example:17", "a/b@c", &longest] {
            assert_eq!(checked_name(name).unwrap(), name);
        }
        let too_long = "x".repeat(MAX_LEN + 1);
        for name in ["", "a b", "a.", "ä", "a\n", "\"", "'", "\\", &too_long] {
            assert!(checked_name(name).is_err(), "{name:?}");
        }
        let own = process_name();
        assert_eq!(checked_name(&own), Ok(own.clone()));
        assert!(own.len() <= MAX_OWN_LEN);
        assert!(own.ends_with(&format!(":{}", std::process::id())));
    }
}
