//! Signals are passed on, and the lease is released after the command has ended.

use std::process::Command;

use support::cli::*;

const SIGNALS: [(&str, i32); 3] = [("INT", 2), ("TERM", 15), ("HUP", 1)];

#[test]
fn each_signal_reaches_the_command_and_the_lease_is_released() {
    let servers = five();
    let at_once = format!("{PATIENT} --wait 0s");
    for (name, number) in SIGNALS {
        let trap = format!("trap 'echo got {name}; exit 9' {name}");
        let job = Job::start(&servers, PATIENT, &trap, "");
        job.signal(name);
        job.ended().prints(9, &format!("got {name}\n"));

        let job = Job::start(&servers, &at_once, "", "");
        job.signal(name);
        job.ended().is(128 + number);
    }
    finish(run(&servers, &at_once, "exit 0")).is(0);
}

#[test]
fn a_signal_ends_the_wait_and_leaves_no_lock() {
    let servers = five();
    let holder = Job::start(&servers, PATIENT, "", "");
    for (name, number) in SIGNALS {
        let waiting = run(&servers, "--wait 1m", "echo never").spawn().unwrap();
        // It listens for signals before it asks the nodes.
        until("the handler", || catches(waiting.id(), number));
        signal(waiting.id(), name);
        end(waiting).prints(128 + number, "");
    }
    holder.go().is(0);
    finish(run(&servers, &format!("{PATIENT} --wait 0s"), "exit 0")).is(0);
}

#[test]
fn what_is_ignored_stays_ignored() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let ready = folder.path().join("ready");
    let script = format!("grep SigIgn /proc/$$/status > {}; sleep 0.3", ready.display());
    // Without what makes it heed all signals.
    let nohup = without_heeding(&run(&servers, "", &script), &["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]);
    let child = piped(nohup).spawn().unwrap();
    let mask = line(&ready);
    signal(child.id(), "HUP");
    assert_eq!(end(child).code, Some(0));
    let mask = u64::from_str_radix(mask.split_whitespace().last().unwrap(), 16).unwrap();
    assert_eq!(mask & 1, 1, "the command ignores HUP as it was meant to");
}

#[test]
fn a_parent_that_ignores_sigchld_changes_no_status() {
    let servers = five();
    let inner = run(&servers, PATIENT, "sh -c 'exit 3'; exit $(($? + 4))");
    finish(without_heeding(&inner, &["env", "--ignore-signal=CHLD"])).is(7);
}

#[test]
fn a_suspension_stops_the_command_as_well() {
    let servers = five();
    let job = Job::start(&servers, "--ttl 12s", "", "$$");
    let [command] = job.processes();
    job.signal("TSTP");
    until("both stand still", || stands_still(job.pid()) && stands_still(command));
    // The lease is not renewed meanwhile.
    until("the end of the command", || !runs(command));
    job.signal("CONT");
    assert_eq!(job.ended().code, Some(76));
}

/// The same program in its environment, started by another one than that which makes it heed all signals.
fn without_heeding(inner: &Command, by: &[&str]) -> Command {
    let mut command = Command::new(by[0]);
    command.args(&by[1..]).args(inner.get_args().skip(2));
    command.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command
}

pub fn catches(pid: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (signal - 1)) != 0
}
