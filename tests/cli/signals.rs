//! Signals are passed on, and the lease is released after the command has ended.

use std::path::Path;

use support::cli::{end, finish, five, line, run, until};
use support::process::{runs, signal};

/// Tells its process id, then sleeps in pieces so that traps run.
fn sleeper(ready: &Path, trap: &str) -> String {
    format!("{trap}; echo $$ > {}; while :; do sleep 0.05; done", ready.display())
}

#[test]
fn each_signal_reaches_the_command_and_the_lease_is_released() {
    let servers = five();
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let trap = format!("trap 'echo got {name}; exit 9' {name}");
        let child = run(&servers, &["--wait", "5s"], &sleeper(&ready, &trap)).spawn().unwrap();
        line(&ready);
        signal(child.id(), name);
        let ended = end(child);
        assert_eq!((ended.code, ended.stdout.trim()), (Some(9), &*format!("got {name}")));

        let ready = folder.path().join("again");
        let child = run(&servers, &["--wait", "0s"], &sleeper(&ready, ":")).spawn().unwrap();
        line(&ready);
        signal(child.id(), name);
        let ended = end(child);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(128 + number), ""), "{name}");
    }
    assert_eq!(finish(run(&servers, &["--wait", "0s"], "exit 0")).code, Some(0));
}

#[test]
fn a_signal_reaches_what_the_command_has_started() {
    let servers = five();
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let script = format!("sh -c 'echo $$ > {}; sleep 60; :' & wait", ready.display());
    let child = run(&servers, &[], &script).spawn().unwrap();
    let grandchild: u32 = line(&ready).parse().unwrap();
    signal(child.id(), "TERM");
    assert_eq!(end(child).code, Some(143));
    until("the end of the grandchild", || !runs(grandchild));
}

#[test]
fn a_signal_ends_the_wait_and_leaves_no_lock() {
    let servers = five();
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let holder = run(&servers, &[], &sleeper(&ready, ":")).spawn().unwrap();
    line(&ready);
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let waiting = run(&servers, &["--wait", "1m"], "echo never").spawn().unwrap();
        // It listens for signals before it asks the nodes.
        let mask = 1u64 << (number - 1);
        until("the handler", || caught(waiting.id()) & mask != 0);
        signal(waiting.id(), name);
        let ended = end(waiting);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(128 + number), ""), "{name}");
    }
    signal(holder.id(), "TERM");
    end(holder);
    assert_eq!(finish(run(&servers, &["--wait", "0s"], "exit 0")).code, Some(0));
}

#[test]
fn what_is_ignored_stays_ignored() {
    let servers = five();
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let script = format!("grep SigIgn /proc/$$/status > {}; sleep 0.3", ready.display());
    let inner = run(&servers, &[], &script);
    let mut nohup = std::process::Command::new("sh");
    // Without what makes it heed all signals.
    nohup.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).args(inner.get_args().skip(2));
    nohup.envs(inner.get_envs().filter_map(|(k, v)| Some((k, v?))));
    let child = nohup.stdin(std::process::Stdio::null()).spawn().unwrap();
    let mask = line(&ready);
    signal(child.id(), "HUP");
    assert_eq!(end(child).code, Some(0));
    let mask = u64::from_str_radix(mask.split_whitespace().last().unwrap(), 16).unwrap();
    assert_eq!(mask & 1, 1, "the command ignores HUP as it was meant to");
}

/// The mask of the signals that a process catches.
fn caught(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap()
}

#[test]
fn a_suspension_stops_the_command_as_well() {
    let servers = five();
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let child = run(&servers, &["--ttl", "10s"], &sleeper(&ready, ":")).spawn().unwrap();
    let command: u32 = line(&ready).parse().unwrap();
    signal(child.id(), "TSTP");
    until("both stand still", || stopped(child.id()) && stopped(command));
    // The lease is not renewed meanwhile.
    until("the end of the command", || !runs(command));
    signal(child.id(), "CONT");
    assert_eq!(end(child).code, Some(76));
}

fn stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}
