//! The torture for a minute, and its control. Longer, and with moves of the fleet:
//! `FENCING_MINUTES=60`, or the program itself, which takes `--seed` and `--faults` as well.

use std::process::{Command, Stdio};
use std::sync::Mutex;

/// One at a time: each keeps the machine busy.
static TURN: Mutex<()> = Mutex::new(());

/// Runs it to its end, and tells whether it found nothing, and its output.
fn torture(arguments: &[&str]) -> (bool, String) {
    let _turn = TURN.lock();
    let mut command = Command::new(env!("CARGO_BIN_EXE_torture"));
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    println!("{text}");
    (output.status.success(), text)
}

#[test]
fn real_processes_under_all_faults() {
    let longer = std::env::var("FENCING_MINUTES").ok();
    let minutes = longer.as_deref().unwrap_or("1");
    let mut arguments = vec!["--minutes", minutes, "--seed", "1", "--postgres"];
    if longer.is_none() {
        // Between moves a fleet is closed for long on a busy machine: too little is left of a
        // minute. tests/cli/fleet moves fleets in every run.
        arguments.extend(["--without", "move"]);
    }
    let (nothing_found, text) = torture(&arguments);
    assert!(nothing_found, "{text}");
    assert!(text.contains(" 0 violations"), "{text}");
}

fn of_three_members(engine: &str) {
    // After a restore nobody locks for the rest of so short a run.
    let short = ["--minutes", "0.5", "--seed", "1", "--without", "restore"];
    let (_, text) = torture(&[&["--engine", engine], &short[..]].concat());
    assert!(text.contains(" 0 violations"), "{text}");
    // A busy machine does little in that time.
    let failed = |line: &&str| line.starts_with("FAILED") && !line.contains("too little work");
    assert_eq!(text.lines().find(failed), None, "{text}");
}

#[test]
fn etcd_under_faults() {
    of_three_members("etcd");
}

#[test]
fn zookeeper_under_faults() {
    of_three_members("zookeeper");
}

#[test]
fn without_the_fence_it_corrupts() {
    // A slow machine plays few leases in that time.
    let shown = (2..7).any(|seed| {
        let seed = seed.to_string();
        let arguments = ["--minutes", "0.2", "--seed", &seed, "--faults", "stop-client", "--unguarded"];
        let (nothing_found, text) = torture(&arguments);
        println!("{text}");
        !nothing_found && text.contains("\nI3: ")
    });
    assert!(shown, "no late write in five runs");
}
