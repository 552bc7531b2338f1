//! What the holders of leases write to one file: when each began and when it ended.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use super::{Attempt, Event, History, Outcome, Report};

/// Appends a mark as one write.
pub fn mark(log: &Path, mark: &str, token: fencing::Token) {
    let mut file = OpenOptions::new().append(true).create(true).open(log).unwrap();
    file.write_all(format!("{mark} {token}\n").as_bytes()).unwrap();
}

/// Leases in the order of the file: none within another, and the order of the tokens
/// that of the leases. Returns how many there are.
pub fn check(log: &Path) -> usize {
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<(&str, u64)> = text
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(mark, token)| (mark, token.parse().unwrap()))
        .collect();
    let mut history = History::default();
    for (number, pair) in (1u64..).zip(lines.chunks(2)) {
        let [("start", token), ("end", second)] = pair else { panic!("overlapping: {pair:?}") };
        assert_eq!(token, second, "overlapping");
        history.events.push(Event::Attempt(Attempt {
            client: 0,
            resource: String::new(),
            // Each was told of its lease while nobody else had one.
            asked: 2 * number,
            told: 2 * number + 1,
            outcome: Outcome::Granted(*token),
        }));
    }
    let report = Report::new(0, &history);
    assert!(report.violations.is_empty(), "{report}");
    lines.len() / 2
}
