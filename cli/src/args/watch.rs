use std::time::Duration;

use super::place::LockPlace;
use crate::duration;

/// How often it may ask.
const EVERY: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(500)..=Duration::from_secs(3600);

/// Shows nodes, leases and marks, and asks again and again until you quit.
///
/// Each part says how old it is. A node that does not answer is shown as that, and since when, and never with
/// what it said before. One that hangs holds up nothing else. Waiters and refused writes are in the metrics of the
/// processes.
///
/// Keys: q, Esc or Ctrl-C quit. The arrows, PgUp, PgDn, Home and End scroll the leases. p pauses, and p again resumes.
/// Ctrl-L redraws, Ctrl-Z suspends.
///
/// It takes no lock and needs no more rights than `fencing nodes`, `fencing leases` and `fencing marks`. With NO_COLOR in the
/// environment it shows no colours. Without a terminal it prints the same as text each time. For scripts there are `fencing nodes --json` and
/// `fencing leases --json`.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) place: LockPlace,
    /// Shows only leases of resources that match: * is any text, ? any character.
    #[arg(long, value_name = "GLOB", default_value = "*")]
    pub(crate) resource: String,
    /// How often it asks: from 500ms to 1h.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = every)]
    pub(crate) every: Duration,
    /// How long one node may take to answer each time. A node may take ten times as long to list
    /// its locks, and a database 10s.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    pub(crate) node_budget: Duration,
    /// Where the storage keeps its marks: sqlite:PATH, postgres://... or mysql://..., or redis://...
    /// (valkey://...) [default: the database of --database]. A Redis that was restarted writes down that its marks are
    /// closed when they are read.
    #[arg(long, value_name = "URL", env = "FENCING_MARKS", hide_env_values = true)]
    pub(crate) marks: Option<String>,
}

fn every(text: &str) -> Result<Duration, String> {
    let every = duration::parse(text)?;
    EVERY.contains(&every).then_some(every).ok_or_else(|| "give 500ms to 1h".to_owned())
}

const STATUS: &str = "\
Durations: 500ms, 2s, 1m, 1h

Exit status:
  0    you have quit
  64   wrong usage
  71   the terminal is gone
  128 + signal, after a signal";

#[cfg(test)]
mod tests {
    use super::*;

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
