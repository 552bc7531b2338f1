//! Metrics as a process tells them to Prometheus.

use std::collections::BTreeMap;

/// Whom a write was not let through by, and why.
pub(super) type Cause = (String, String);

/// What a process tells of itself. `None` where it tells nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Process {
    pub(super) leases: Option<f64>,
    pub(super) waiting: Option<f64>,
    /// Leases that were lost since it started.
    pub(super) lost: Option<f64>,
    /// Writes that it did not let through since it started, and those that it only would not have.
    pub(super) refused: BTreeMap<Cause, f64>,
    /// Whether it has admitted writes, and so would tell of refusals.
    pub(super) admits: bool,
    /// Whether it is an exporter, which tells of nodes.
    pub(super) nodes: bool,
}

impl Process {
    /// Reads the text format. Lines that it does not understand tell nothing.
    pub(super) fn read(text: &str) -> Process {
        let mut found = Process::default();
        for (name, labels, value) in text.lines().filter_map(sample) {
            let sum = |to: &mut Option<f64>| *to = Some(to.unwrap_or(0.0) + value);
            match name {
                "fencing_leases" => sum(&mut found.leases),
                "fencing_waiting" => sum(&mut found.waiting),
                "fencing_leases_lost_total" => sum(&mut found.lost),
                "fencing_admissions_total" => found.admission(&labels, value),
                "fencing_nodes" => found.nodes = true,
                _ => {}
            }
        }
        found
    }

    fn admission(&mut self, labels: &BTreeMap<&str, String>, value: f64) {
        let label = |name| labels.get(name).cloned().unwrap_or_default();
        self.admits = true;
        if label("outcome") != "admitted" {
            *self.refused.entry((label("door"), label("outcome"))).or_default() += value;
        }
    }

    /// Returns whether it tells nothing that the view could show.
    pub(super) fn is_silent(&self) -> bool {
        self.leases.is_none() && self.waiting.is_none() && self.lost.is_none() && !self.admits
    }
}

/// Whether a write with this outcome was refused. Others were let through in shadow mode, or it is not known whether they
/// were committed.
pub(super) fn is_refusal(outcome: &str) -> bool {
    !outcome.starts_with("shadow_") && !matches!(outcome, "in_doubt" | "kept" | "rolled_back")
}

type Sample<'a> = (&'a str, BTreeMap<&'a str, String>, f64);

/// Reads `name{label="value",...} number`, and perhaps a time.
fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))?;
    let (name, mut rest) = line.split_at_checked(end)?;
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside.trim_start();
        while !rest.starts_with('}') {
            let (label, behind) = rest.split_once('=')?;
            let (value, behind) = quoted(behind.trim_start())?;
            labels.insert(label.trim(), value);
            let behind = behind.trim_start();
            rest = behind.strip_prefix(',').unwrap_or(behind).trim_start();
        }
        rest = rest.strip_prefix('}')?;
    }
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    value.is_finite().then_some((name, labels, value))
}

/// Reads a value in quotation marks, and returns what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('"')?;
    let (mut value, mut escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            'n' if escaped => value.push('\n'),
            _ if escaped => value.push(c),
            '\\' => {
                escaped = true;
                continue;
            }
            '"' => return Some((value, text.get(at + 1..)?)),
            _ => value.push(c),
        }
        escaped = false;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_tells_is_read() {
        let process = Process::read(
            "# TYPE fencing_leases gauge\nfencing_leases 3\nfencing_waiting{app=\"a\"} 1\n\
             fencing_waiting{app=\"b\"} 1.0 1700000000000\nfencing_leases_lost_total 0\n\
             fencing_admissions_total{door=\"fence\",outcome=\"admitted\"} 90\n\
             fencing_admissions_total{door=\"fence\",outcome=\"stale\"} 4\n\
             fencing_admissions_total{ outcome = \"stale\" , door=\"fence\", } 1\n\
             fencing_admissions_total{door=\"http\",outcome=\"a\\\"b\\\\c\\nd\"} 2\n",
        );
        assert_eq!(
            (process.leases, process.waiting, process.lost),
            (Some(3.0), Some(2.0), Some(0.0))
        );
        let stale = ("fence".to_owned(), "stale".to_owned());
        let odd = ("http".to_owned(), "a\"b\\c\nd".to_owned());
        assert_eq!(process.refused, BTreeMap::from([(stale, 5.0), (odd, 2.0)]));
        assert!(process.admits && !process.is_silent() && !process.nodes);
    }

    #[test]
    fn what_is_not_told_is_not_zero() {
        for text in [
            "",
            "fencing_waiting",
            "fencing_waiting NaN",
            "fencing_waiting +Inf",
            "fencing_waiting{a=\"b} 1",
            "fencing_waiting{a=\"b\" 1",
            "fencing_waiting{a} 1",
            "fencing_waiting_seconds 1",
            "{} 1",
        ] {
            assert!(Process::read(text).is_silent(), "{text}");
        }
        assert!(Process::read("fencing_nodes{namespace=\"fencing\"} 5").nodes);
    }

    #[test]
    fn what_may_have_been_written_is_no_refusal() {
        assert!(is_refusal("stale") && is_refusal("missing"));
        assert!(!is_refusal("shadow_stale") && !is_refusal("in_doubt"));
    }
}
