//! What `fencing run` leaves behind when it ends, and what it says while nodes are closed.

use serde_json::Value;

use support::cli::{end, fencing, finish, five, run, until};
use support::process::signal;
use support::redis::{self, RedisServer};

fn locks(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(|s| s.cli(&["EXISTS", "{fencing}:lock:invoice/42"])).collect()
}

#[test]
fn a_failed_try_leaves_no_grant_of_a_minority_behind() {
    let mut servers = five();
    servers.iter_mut().skip(2).for_each(RedisServer::kill);
    for round in 0..5 {
        // The first attempt may be lost before the others are reached: the next ones grant.
        let ended = finish(run(&servers, &["--wait", "3s"], "echo never"));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(69), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains("no quorum"), "{}", ended.stderr);
        assert_eq!(locks(&servers[..2]), ["0", "0"], "round {round}");
    }
    let counted = servers[0].cli(&["HGET", "{fencing}:memory", "c:invoice/42"]);
    assert!(counted.parse::<u32>().is_ok_and(|count| count >= 5), "it has granted: {counted:?}");
}

#[test]
fn nor_does_a_try_that_finds_the_lock_held() {
    let servers = five();
    let other = "other-owner";
    for server in &servers[..3] {
        server.cli(&["SET", "{fencing}:lock:invoice/42", other, "PX", "600000"]);
    }
    for _ in 0..10 {
        let ended = finish(run(&servers, &["--wait", "0s"], "echo never"));
        assert_eq!(ended.code, Some(75), "{}", ended.stderr);
        assert_eq!(locks(&servers[3..]), ["0", "0"]);
    }
    assert_eq!(servers[0].cli(&["GET", "{fencing}:lock:invoice/42"]), other);
}

#[test]
fn nor_does_a_wait_that_a_signal_ends() {
    let servers = five();
    // An attempt is open until their node budget has passed, and the two others hold its grants.
    servers.iter().skip(2).for_each(|server| server.signal("STOP"));
    for round in 0..5 {
        let child = run(&servers, &["--wait", "1m"], "echo never").spawn().unwrap();
        until("its grants", || locks(&servers[..2]) == ["1", "1"]);
        signal(child.id(), "TERM");
        assert_eq!(end(child).code, Some(143));
        assert_eq!(locks(&servers[..2]), ["0", "0"], "round {round}");
    }
}

#[test]
fn a_short_command_brings_a_node_back() {
    let mut servers = five();
    for round in 0..3 {
        let node = round % 5;
        match round % 2 {
            0 => servers[node].restart(),
            _ => drop(servers[node].cli(&["FLUSHALL"])),
        }
        // A lease takes less time than the node's return. One that is late on a busy machine is left to the next.
        until("the node's return", || {
            let options = ["--ttl", "3s", "--node-budget", "300ms", "--wait", "20s"];
            let ended = finish(run(&servers, &options, "exit 0"));
            assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "round {round}");
            let mut command = fencing(&servers);
            command.args(["nodes", "--json"]);
            let nodes: Vec<Value> = serde_json::from_str(&finish(command).stdout).unwrap();
            nodes[node]["admitted"] == true
        });
        until("the end of the quarantine", || {
            servers[node].cli(&["EXISTS", "{fencing}:quarantine"]) == "0"
        });
    }
}

const SKIP: &str = "if no lock is held, `fencing fleet admit --now` ends that";

#[test]
fn whoever_waits_for_new_nodes_is_told_how_to_skip_that() {
    let servers = redis::five();
    // The start of new nodes takes some seconds, and comes before that.
    for wait in ["15s", "500ms", "0s"] {
        let options = ["--ttl", "1h", "--node-budget", "1s", "--wait", wait];
        let ended = finish(run(&servers, &options, "echo never"));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(69), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains("quarantined for "), "{wait}: {}", ended.stderr);
        assert_eq!(ended.stderr.matches(SKIP).count(), 1, "{wait}: {}", ended.stderr);
    }
    // Whoever waits gets the lock as soon as it is skipped, and was told why it waits.
    let options = ["--ttl", "1h", "--node-budget", "1s", "--wait", "1m"];
    let mut waiting = run(&servers, &options, "echo mine");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stderr");
    waiting.stderr(std::fs::File::create(&path).unwrap());
    let waiting = waiting.spawn().unwrap();
    let said = || std::fs::read_to_string(&path).unwrap();
    until("it says why it waits", || said().contains(SKIP));
    let mut init = fencing(&servers);
    init.args(["fleet", "init"]);
    assert_eq!(finish(init).code, Some(0));
    let ended = end(waiting);
    let said = said();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "mine\n"), "{said}");
    assert!(said.starts_with("fencing: waiting: "), "{said}");
    assert_eq!(said.matches(SKIP).count(), 1, "{said}");
}
