//! Exit statuses, the command's environment, and passwords that stay hidden.

use std::process::Command;

use support::cli::{Ended, end, fencing, finish, five, line, run, urls};
use support::process::signal;
use support::redis::{self, RedisServer};

fn bare(arguments: &[&str]) -> Ended {
    let mut command = fencing(&[]);
    command.env_remove("FENCING_REDIS").args(arguments);
    finish(command)
}

#[test]
fn the_status_and_the_output_are_the_commands_own() {
    let servers = five();
    let ended = finish(run(&servers, &[], "echo $FENCING_TOKEN $FENCING_RESOURCE; exit 7"));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(7), ""));
    let (token, resource) = ended.stdout.trim().split_once(' ').unwrap();
    assert!(token.parse::<fencing::Token>().is_ok(), "{token}");
    assert_eq!(resource, "invoice/42");

    for (script, code) in [("exit 0", 0), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
        let ended = finish(run(&servers, &["--wait", "5s"], script));
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(code), ""), "{script}");
    }
    // Every one of them has released: the next does not wait.
    assert_eq!(finish(run(&servers, &["--wait", "0s"], "exit 0")).code, Some(0));
}

#[test]
fn a_command_may_take_longer_than_the_ttl() {
    let mut servers = five();
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let script = format!("echo go > {}; sleep 9; exit 4", ready.display());
    let long = run(&servers, &["--ttl", "4s"], &script).spawn().unwrap();
    line(&ready);
    // The majority that is left renews.
    servers[0].kill();
    servers[1].signal("STOP");
    let held = finish(run(&servers, &["--ttl", "4s", "--wait", "2s"], "echo never"));
    assert_eq!((held.code, held.stdout.as_str()), (Some(75), ""), "{}", held.stderr);
    let ended = end(long);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(4), ""));
}

#[test]
fn what_cannot_be_run_is_told_as_shells_do_and_the_lease_released() {
    let servers = five();
    for (program, code) in [("no-such-program", 127), ("/etc/passwd", 126), ("/", 126)] {
        let mut command = fencing(&servers);
        command.args(["run", "--resource", "invoice/42", "--", program]);
        finish(command).says(code, &format!("cannot run {program}: "));
    }
    assert_eq!(finish(run(&servers, &["--wait", "0s"], "exit 0")).code, Some(0));
}

#[test]
fn held_and_down_are_told_apart() {
    let mut servers = five();
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let holder = run(&servers, &[], &format!("echo go > {}; sleep 60", ready.display())).spawn();
    let holder = holder.unwrap();
    line(&ready);
    for wait in ["0s", "300ms"] {
        let ended = finish(run(&servers, &["--wait", wait], "echo never"));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(75), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains("invoice/42 is held by another"), "{}", ended.stderr);
    }
    signal(holder.id(), "TERM");
    assert_eq!(end(holder).code, Some(143));

    servers.iter_mut().take(3).for_each(RedisServer::kill);
    let ended = finish(run(&servers, &["--wait", "300ms"], "echo never"));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(69), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("no quorum for invoice/42: "), "{}", ended.stderr);
    assert!(ended.stderr.contains(&servers[0].url()), "{}", ended.stderr);
}

#[test]
fn the_lock_stays_closed_for_as_long_as_it_has_to() {
    let servers = five();
    let least = finish(run(&servers, &["--at-least", "1h", "--ttl", "2h"], "echo done"));
    assert_eq!((least.code, least.stdout.as_str()), (Some(0), "done\n"), "{}", least.stderr);
    let next = finish(run(&servers, &["--wait", "0s"], "echo never"));
    assert_eq!((next.code, next.stdout.as_str()), (Some(75), ""), "{}", next.stderr);
}

#[test]
fn a_release_in_doubt_is_a_warning() {
    let servers = five();
    // The command stops three nodes and ends: they can't say that they released.
    let pids: Vec<String> = servers.iter().take(3).map(|s| s.pid().to_string()).collect();
    let script = format!("kill -STOP {}; exit 3", pids.join(" "));
    let ended = finish(run(&servers, &[], &script)).says(3, "warning: invoice/42 token ");
    assert!(ended.stderr.contains("release in doubt"), "{}", ended.stderr);
}

#[test]
fn wrong_usage_is_64_and_help_is_0() {
    let redis = ["run", "--redis", "redis://h", "--resource", "a"];
    let with = |more: &[&'static str]| [redis.as_slice(), more].concat();
    for (arguments, words) in [
        (vec![], "Usage: fencing"),
        (vec!["walk"], "unrecognized subcommand"),
        (vec!["nodes"], "--redis"),
        (vec!["nodes", "--redis", ","], "there must be 1 to 99 nodes"),
        (vec!["nodes", "--redis", "http://h"], "http://h is not a redis://"),
        (vec!["nodes", "--redis", "redis://h,redis://h"], "given twice"),
        (vec!["nodes", "--redis", "redis://h", "--namespace", "{"], "namespace"),
        (vec!["run", "--redis", "redis://h", "--", "true"], "--resource"),
        (vec!["run", "--redis", "redis://h", "--resource", "", "--", "true"], "--resource"),
        (with(&[]), "COMMAND"),
        (with(&["--ttl", "5", "--", "true"]), "500ms, 2s, 1m"),
        (with(&["--wait=-1s", "--", "true"]), "--wait"),
        (with(&["--at-least", "11s", "--", "true"]), "--ttl 10s: give --ttl 11s or more"),
        (with(&["--ttl", "1ms", "--", "true"]), "ttl: "),
        (with(&["--node-budget", "10s", "--", "true"]), "node_budget: "),
    ] {
        let ended = bare(&arguments).says(64, words);
        assert_eq!(ended.stdout, "");
    }
    for arguments in [["--help"].as_slice(), &["--version"], &["run", "--help"], &["nodes", "-h"]] {
        let ended = bare(arguments);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        assert!(ended.stdout.contains("fencing"), "{arguments:?}");
    }
}

#[test]
fn passwords_are_never_printed() {
    let url = "redis://me:s3cret@127.0.0.1:1";
    let print = |mut command: Command| {
        command.args(["--wait", "0s", "--resource", "a", "--", "true"]);
        let ended = finish(command);
        assert_ne!(ended.code, Some(0));
        format!("{}{}", ended.stdout, ended.stderr)
    };
    let mut texts = Vec::new();
    for arguments in [
        vec!["run", "--redis", url],
        vec!["run", "--redis", "redis://h", url],
        vec!["run", "--redis", "http://me:s3cret@h"],
        vec!["run", "--redis", "redis://me:s3cret@h:port"],
        vec!["run", "--redis", url, "--redis", url],
        vec![url],
        vec!["nodes", "--redis", url],
        vec!["nodes", "--redis", "unix:///nowhere?user=me&pass=s3cret"],
        vec!["nodes", url],
    ] {
        let mut command = fencing(&[]);
        command.args(arguments);
        if command.get_args().next().is_some_and(|first| first == "run") {
            texts.push(print(command));
        } else {
            let ended = finish(command);
            texts.push(format!("{}{}", ended.stdout, ended.stderr));
        }
    }
    for arguments in [["run", "--help"].as_slice(), &["nodes", "--help"], &["run"], &["nodes"]] {
        let mut command = fencing(&[]);
        command.env("FENCING_REDIS", url).args(arguments);
        let ended = finish(command);
        texts.push(format!("{}{}", ended.stdout, ended.stderr));
    }
    for text in texts {
        assert!(!text.is_empty() && !text.contains("s3cret"), "{text}");
    }
}

#[test]
fn the_option_goes_before_the_environment() {
    let servers = redis::five();
    let mut init = fencing(&servers);
    init.args(["fleet", "init", "--namespace", "other"]);
    assert_eq!(finish(init).code, Some(0));
    let mut command = fencing(&servers);
    command.env("FENCING_REDIS", "redis://127.0.0.1:1");
    command.args(["run", "--redis", &urls(&servers), "--namespace", "other"]);
    command.args(["--resource", "a b", "--", "sh", "-c", "test \"$FENCING_RESOURCE\" = 'a b'"]);
    assert_eq!(finish(command).code, Some(0));
    assert_eq!(servers[0].cli(&["EXISTS", "{other}:memory"]), "1");
    assert_eq!(servers[0].cli(&["EXISTS", "{fencing}:memory"]), "0");
}
