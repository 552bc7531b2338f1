//! `fencing fleet init`: new nodes grant at once, and nodes in use stay as they are.

use crate::fleet::place::{command, fencing, init, lease, list, nodes, run, servers};
use support::cli::{end, finish, until};

const WHILE: [&str; 4] = ["--ttl", "50s", "--wait", "0s"];

#[test]
fn the_first_lease_comes_at_once() {
    let servers = servers(3);
    let list = list(&servers);
    assert_eq!(lease(&list, &WHILE).unwrap_err().code, Some(69));
    init(&list);
    let first = lease(&list, &WHILE).unwrap();
    // And again: nothing is changed any more.
    let era = nodes(&list).era(0);
    init(&list);
    assert_eq!(nodes(&list).era(0), era);
    assert!(lease(&list, &WHILE).unwrap() > first);
}

#[test]
fn several_at_once_and_a_client_that_starts_the_nodes_itself() {
    let servers = servers(5);
    let list = list(&servers);
    let client = run(&list, &["--ttl", "1h", "--wait", "25s"], "echo mine").spawn().unwrap();
    let inits: Vec<_> =
        (0..3).map(|_| command(&list, &["fleet", "init"]).spawn().unwrap()).collect();
    for child in inits {
        let ended = end(child);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    }
    // Whoever was first: no node is left closed.
    let ended = end(client);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "mine\n"), "{}", ended.stderr);
    let said = nodes(&list);
    assert!(said.nodes.iter().all(|node| node["usable"] == true), "{:?}", said.lines);
}

#[test]
fn nodes_in_use_stay_as_they_are() {
    let servers = servers(3);
    let list = list(&servers);
    init(&list);
    lease(&list, &WHILE).unwrap();
    let era = nodes(&list).era(1);
    // One has forgotten, and may have forgotten a lock.
    servers[0].cli(&["FLUSHALL"]);
    init(&list);
    assert_eq!(servers[0].cli(&["DBSIZE"]), "1", "only what marks its memory");
    assert_eq!(fencing(&list, &["fleet", "admit"]).code, Some(0));
    let closed = || servers[0].cli(&["EXISTS", "{fencing}:quarantine"]) == "1";
    assert!(closed());
    init(&list);
    assert!(closed(), "its quarantine was lifted");
    // Now a majority is closed: that is said, and stays.
    servers[1].cli(&["FLUSHALL"]);
    assert_eq!(fencing(&list, &["fleet", "admit"]).code, Some(0));
    fencing(&list, &["fleet", "init"]).says(69, "leaves them as they are");
    assert!(closed());
    assert_eq!(nodes(&list).era(2), era);
}

#[test]
fn a_majority_that_forgot_is_not_new() {
    let servers = servers(3);
    let list = list(&servers);
    init(&list);
    lease(&list, &WHILE).unwrap();
    servers[0].cli(&["FLUSHALL"]);
    servers[1].cli(&["FLUSHALL"]);
    let ended = fencing(&list, &["fleet", "init"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(65), ""));
    assert!(ended.stderr.contains("the nodes are not new"), "{}", ended.stderr);
    assert_eq!(nodes(&list).nodes[0]["admitted"], false);
}

#[test]
fn every_node_must_answer_and_belong_here() {
    let mut servers = servers(4);
    let (one, two) = (list(&servers[..3]), list(&servers[1..]));
    let dead = servers[0].url();
    servers[0].kill();
    fencing(&one, &["fleet", "init"]).says(69, &format!("every node must answer: {dead}"));
    servers[0].restart();
    init(&one);
    let ended = fencing(&two, &["fleet", "init"]);
    assert!(matches!(ended.code, Some(65 | 69)), "{}", ended.stderr);
    assert!(ended.stderr.contains("a node of another fleet: "), "{}", ended.stderr);
    // It can be interrupted.
    servers[2].signal("STOP");
    let child = command(&one, &["fleet", "init", "--node-budget", "5s"]).spawn().unwrap();
    until("it listens", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        status.lines().any(|l| {
            l.strip_prefix("SigCgt:")
                .is_some_and(|m| u64::from_str_radix(m.trim(), 16).unwrap() & (1 << 14) != 0)
        })
    });
    support::process::signal(child.id(), "TERM");
    let ended = end(child);
    servers[2].signal("CONT");
    assert_eq!(ended.code, Some(143));
    assert!(ended.stderr.contains("run the same command again"), "{}", ended.stderr);
    assert_eq!(finish(command(&one, &["fleet", "init"])).code, Some(0));
}
