//! Exit statuses, and the command's environment. Signals are passed on, and the lease is released after the command has
//! ended. What `fencing run` leaves behind when it ends, and what it says while nodes are closed.

use std::process::Command;

use support::cli::*;
use support::redis;

#[test]
fn the_status_and_the_output_are_the_commands_own() {
    let servers = five();
    let ended = finish(run(&servers, PATIENT, "echo $FENCING_TOKEN $FENCING_RESOURCE; exit 7")).is(7);
    let (token, resource) = ended.stdout.trim().split_once(' ').unwrap();
    assert!(token.parse::<fencing::Token>().is_ok(), "{token}");
    assert_eq!(resource, "invoice/42");
    for (script, code) in [("exit 0", 0), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
        finish(run(&servers, PATIENT, script)).is(code);
    }
    for (program, code) in [("no-such-program", 127), ("/etc/passwd", 126), ("/", 126)] {
        ask(&servers, &format!("run --resource invoice/42 {PATIENT} -- {program}"))
            .says(code, &format!("cannot run {program}: "));
    }
    // Every one of them has released: the next does not wait.
    let at_once = format!("{PATIENT} --wait 0s");
    finish(run(&servers, &at_once, "exit 0")).is(0);
    // But where the lock stays closed for as long as it has to.
    finish(run(&servers, "--at-least 1h --ttl 2h --node-budget 60s", "echo done")).prints(0, "done\n");
    finish(run(&servers, &at_once, "echo never")).prints(75, "");
}

#[test]
fn a_command_may_take_longer_than_the_ttl() {
    let mut servers = five();
    let long = Job::start(&servers, "--ttl 20s --node-budget 5s", "", "");
    // The majority that is left renews.
    servers[0].kill();
    servers[1].signal("STOP");
    let held = finish(run(&servers, "--ttl 20s --node-budget 5s --wait 25s", "echo never"));
    held.prints(75, "").says(75, "invoice/42 is held by another");
    long.go().is(0);
}

#[test]
fn a_release_in_doubt_is_a_warning() {
    let servers = five();
    // The command stops three nodes and ends: they can't say that they released.
    let pids: Vec<String> = servers.iter().take(3).map(|s| s.pid().to_string()).collect();
    let script = format!("kill -STOP {}; exit 3", pids.join(" "));
    let ended = finish(run(&servers, "", &script)).says(3, "warning: invoice/42 token ");
    assert!(ended.stderr.contains("release in doubt"), "{}", ended.stderr);
}

#[test]
fn the_option_goes_before_the_environment() {
    let servers = redis::five();
    ask(&servers, "fleet init --namespace other --node-budget 5s").is(0);
    let options = format!("run --redis {} --namespace other --node-budget 1s", urls(&servers));
    let mut command = fencing("redis://127.0.0.1:1", &options);
    command.args(["--resource", "a b", "--", "sh", "-c", "test \"$FENCING_RESOURCE\" = 'a b'"]);
    finish(command).is(0);
    assert_eq!(servers[0].cli(&["EXISTS", "{other}:memory"]), "1");
    assert_eq!(servers[0].cli(&["EXISTS", "{fencing}:memory"]), "0");
}

#[test]
fn the_log_says_what_it_is_asked_for() {
    let servers = five();
    let logged = |level: &str| {
        let mut command = run(&servers, PATIENT, "true");
        command.env("RUST_LOG", level);
        finish(command)
    };
    finish(run(&servers, PATIENT, "true")).is(0);
    logged("fencing=debug").says(0, "lease acquired");
    logged("fencing=error").is(0);
    logged("fencing=loud").says(0, "RUST_LOG is ignored");
}

const LOCK: &str = "{fencing}:lock:invoice/42";

fn locks(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(|server| server.cli(&["EXISTS", LOCK])).collect()
}

#[test]
fn a_failed_try_leaves_no_grant_of_a_minority_behind() {
    let mut servers = five();
    // Where it finds the lock held.
    for server in &servers[..3] {
        server.cli(&["SET", LOCK, "other-owner", "PX", "600000"]);
    }
    for _ in 0..3 {
        let held = finish(run(&servers, &format!("{PATIENT} --wait 0s"), "echo never"));
        held.prints(75, "").says(75, "invoice/42 is held by another");
        assert_eq!(locks(&servers[3..]), ["0", "0"]);
    }
    assert_eq!(servers[0].cli(&["GET", LOCK]), "other-owner");
    // Where most do not answer.
    servers.iter_mut().take(3).for_each(RedisServer::kill);
    for round in 0..2 {
        // The first attempt may be lost before the others are reached: the next ones grant.
        let down = finish(run(&servers, "--wait 3s", "echo never"));
        let down = down.prints(69, "").says(69, "no quorum for invoice/42: ");
        assert!(down.stderr.contains(&servers[0].url()), "{}", down.stderr);
        assert_eq!(locks(&servers[3..]), ["0", "0"], "round {round}");
    }
    let counted = servers[4].cli(&["HGET", "{fencing}:memory", "c:invoice/42"]);
    assert!(counted.parse::<u32>().is_ok_and(|count| count >= 2), "it has granted: {counted:?}");
}

#[test]
fn nor_does_a_wait_that_a_signal_ends() {
    let servers = five();
    // An attempt is open until their node budget has passed, and the two others hold its grants.
    servers.iter().skip(2).for_each(|server| server.signal("STOP"));
    for round in 0..2 {
        let child = run(&servers, "--wait 1m", "echo never").spawn().unwrap();
        until("its grants", || locks(&servers[..2]) == ["1", "1"]);
        signal(child.id(), "TERM");
        assert_eq!(end(child).code, Some(143));
        assert_eq!(locks(&servers[..2]), ["0", "0"], "round {round}");
    }
}

#[test]
fn whoever_waits_for_new_nodes_is_told_how_to_skip_that() {
    const SKIP: &str = "`fencing fleet recover --now` says when and how to end that";
    let servers = redis::five();
    // Whoever waits gets the lock as soon as it is skipped, and was told why it waits.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stderr");
    let mut waiting = run(&servers, "--ttl 1h --wait 10m", "echo mine");
    let waiting = waiting.stderr(std::fs::File::create(&path).unwrap()).spawn().unwrap();
    let said = || std::fs::read_to_string(&path).unwrap();
    until("it says why it waits", || said().contains(SKIP));
    for wait in ["500ms", "0s"] {
        let ended = finish(run(&servers, &format!("--ttl 1h --wait {wait}"), "echo never"));
        let ended = ended.prints(69, "").says(69, "quarantined for ");
        assert_eq!(ended.stderr.matches(SKIP).count(), 1, "{wait}: {}", ended.stderr);
    }
    init(&servers);
    end(waiting).prints(0, "mine\n");
    let said = said();
    assert!(said.starts_with("fencing: waiting: ") && said.matches(SKIP).count() == 1, "{said}");
}

const SIGNALS: [(&str, i32); 3] = [("INT", 2), ("TERM", 15), ("HUP", 1)];

#[test]
fn each_signal_reaches_the_command_or_ends_the_wait_and_no_lock_is_left() {
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

    let holder = Job::start(&servers, PATIENT, "", "");
    for (name, number) in SIGNALS {
        let waiting = run(&servers, "--wait 1m", "echo never").spawn().unwrap();
        // It listens for signals before it asks the nodes.
        until("the handler", || catches(waiting.id(), number));
        signal(waiting.id(), name);
        end(waiting).prints(128 + number, "");
    }
    holder.go().is(0);
    finish(run(&servers, &at_once, "exit 0")).is(0);
}

#[test]
fn what_is_ignored_stays_ignored_and_no_status_is_changed_by_a_parent_that_ignores_sigchld() {
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
