//! Exit statuses, and the command's environment.

use support::cli::{Job, PATIENT, ask, fencing, finish, five, run, urls};
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
