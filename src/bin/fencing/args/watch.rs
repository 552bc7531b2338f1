use std::time::Duration;

use http::Uri;
use http::uri::{PathAndQuery, Scheme};

use super::run::Place;
use crate::duration;

/// How often it may ask.
const EVERY: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(500)..=Duration::from_secs(3600);

/// Shows how nodes, leases, marks and processes stand, and asks again and again until you quit.
///
/// Each part says how old it is. A node that does not answer is shown as that, and since when, and never with
/// what it said before. One that hangs holds up nothing else.
///
/// Keys: q, Esc or Ctrl-C quit. The arrows, PgUp, PgDn, Home and End scroll. p pauses, and p again goes on.
/// Ctrl-L draws anew, Ctrl-Z suspends.
///
/// It takes no lock and needs no more rights than `fencing nodes`, `fencing leases` and `fencing marks`. With NO_COLOR in the
/// environment it shows no colours. For scripts there are `fencing nodes --json` and `fencing leases --json`.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Shows only leases of resources of this form: * stands for any text, ? for any character.
    #[arg(long, value_name = "GLOB", default_value = "*")]
    pub(crate) resource: String,
    /// How often it asks: from 500ms to 1h.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = every)]
    pub(crate) every: Duration,
    /// How long one node, or one process, may take to answer each time. A node may take ten times as long to tell all
    /// its locks, and a database 10s.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    pub(crate) node_budget: Duration,
    /// The metrics of a process, which alone knows who waits there and what it refused: http://HOST:PORT is the
    /// status port of `fencing serve` or `fencing proxy`; for your own application, give the whole URL. Give it once for each
    /// process.
    #[arg(long, value_name = "URL", value_parser = metrics)]
    pub(crate) metrics: Vec<Uri>,
    /// Where the storage keeps its marks: sqlite:PATH, postgres://... or mysql://..., or redis://...
    /// (valkey://...) [default: the database of --database]. A Redis that was restarted writes down that its marks are
    /// closed when somebody looks at them.
    #[arg(long, value_name = "URL", env = "FENCING_MARKS", hide_env_values = true)]
    pub(crate) marks: Option<String>,
}

fn every(text: &str) -> Result<Duration, String> {
    let every = duration::parse(text)?;
    EVERY.contains(&every).then_some(every).ok_or_else(|| "give 500ms to 1h".to_owned())
}

fn metrics(text: &str) -> Result<Uri, String> {
    let wrong = || "give a URL like http://HOST:PORT/metrics, without user and password".to_owned();
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let mut parts = whole.parse::<Uri>().map_err(|_| wrong())?.into_parts();
    let plain = parts.scheme.as_ref() == Some(&Scheme::HTTP);
    let known = parts.authority.as_ref().is_some_and(|it| !it.as_str().contains('@'));
    if !plain || !known {
        return Err(wrong());
    }
    if parts.path_and_query.as_ref().is_none_or(|path| path.as_str() == "/") {
        parts.path_and_query = Some(PathAndQuery::from_static("/metrics"));
    }
    Uri::from_parts(parts).map_err(|_| wrong())
}

const STATUS: &str = "\
Durations: 500ms, 2s, 1m, 1h

Exit status:
  0    you have quit
  64   wrong usage, or no terminal
  71   the terminal is gone
  128 + signal, after a signal";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_a_process_is_named_in_short() {
        for (text, whole) in [
            ("h:7434", "http://h:7434/metrics"),
            ("http://h:7434/", "http://h:7434/metrics"),
            ("http://[::1]:80/own?x=1", "http://[::1]:80/own?x=1"),
        ] {
            assert_eq!(metrics(text).unwrap().to_string(), whole);
        }
        for text in ["", "https://h", "http://me:s@h", "ftp://h", "http://"] {
            assert!(metrics(text).is_err(), "{text}");
        }
    }

    #[test]
    fn it_asks_neither_all_the_time_nor_never() {
        for text in ["500ms", "2s", "1h"] {
            assert!(every(text).is_ok(), "{text}");
        }
        for text in ["0s", "499ms", "2h", "2"] {
            assert!(every(text).is_err(), "{text}");
        }
    }
}
