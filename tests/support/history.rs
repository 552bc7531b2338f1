//! What the holders of leases write to one file: when each began and when it ended.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// Appends a mark as one write.
#[allow(dead_code, reason = "the command line's holders are shell scripts")]
pub fn mark(log: &Path, mark: &str, token: fencing::Token) {
    let mut file = OpenOptions::new().append(true).create(true).open(log).unwrap();
    file.write_all(format!("{mark} {token}\n").as_bytes()).unwrap();
}

/// Leases in the order of the file: none within another, tokens strictly growing.
/// Returns how many there are.
pub fn check(log: &Path) -> usize {
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<(&str, u64)> = text
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(mark, token)| (mark, token.parse().unwrap()))
        .collect();
    let mut last = 0;
    for pair in lines.chunks(2) {
        let [("start", first), ("end", second)] = pair else { panic!("overlapping: {pair:?}") };
        assert_eq!(first, second, "overlapping");
        assert!(*first > last, "token {first} after {last}");
        last = *first;
    }
    lines.len() / 2
}
