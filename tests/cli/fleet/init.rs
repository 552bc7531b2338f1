//! `fencing fleet init`: new nodes grant at once, and nodes in use stay as they are.

use support::process::signal;

use crate::fleet::place::*;
use crate::signals::catches;

const WHILE: &str = "--ttl 50s --wait 0s --node-budget 20s";

#[test]
fn the_first_lease_comes_at_once_and_a_majority_that_forgot_is_not_new() {
    let servers = servers(3);
    lease(&servers, WHILE).unwrap_err().says(69, "");
    init(&servers);
    let first = lease(&servers, WHILE).unwrap();
    // And again: nothing is changed any more.
    let era = nodes(&servers, 0, "").number(0, "era");
    init(&servers);
    assert_eq!(nodes(&servers, 0, "").number(0, "era"), era);
    assert!(lease(&servers, WHILE).unwrap() > first);
    servers[0].cli(&["FLUSHALL"]);
    servers[1].cli(&["FLUSHALL"]);
    let words = "the nodes are not new";
    ask(&servers, "fleet init --node-budget 5s").prints(65, "").says(65, words);
    assert_eq!(nodes(&servers, 69, "").all("admitted")[0], false);
}

#[test]
fn several_at_once_and_a_client_that_starts_the_nodes_itself() {
    let servers = servers(5);
    let client = run(&servers, "--ttl 1h", "echo mine").spawn().unwrap();
    let init = || fencing(&servers, "fleet init --node-budget 5s").spawn().unwrap();
    for child in [init(), init(), init()] {
        end(child).is(0);
    }
    // Whoever was first: no node is left closed.
    end(client).prints(0, "mine\n");
    let said = nodes(&servers, 0, "");
    assert_eq!(said.all("usable"), [true; 5], "{}", said.stdout);
}

#[test]
fn nodes_in_use_stay_as_they_are() {
    let servers = started(servers(3));
    lease(&servers, WHILE).unwrap();
    let era = nodes(&servers, 0, "").number(1, "era");
    // One has forgotten, and may have forgotten a lock.
    servers[0].cli(&["FLUSHALL"]);
    init(&servers);
    assert_eq!(servers[0].cli(&["DBSIZE"]), "1", "only what marks its memory");
    admit(&servers, "");
    let closed = || servers[0].cli(&["EXISTS", "{fencing}:quarantine"]) == "1";
    assert!(closed());
    init(&servers);
    assert!(closed(), "its quarantine was lifted");
    // Now a majority is closed: that is said, and stays.
    servers[1].cli(&["FLUSHALL"]);
    admit(&servers, "");
    ask(&servers, "fleet init --node-budget 5s").says(69, "leaves them as they are");
    assert!(closed());
    assert_eq!(nodes(&servers, 69, "").number(2, "era"), era);
}

#[test]
fn every_node_must_answer_and_belong_here() {
    let mut servers = servers(4);
    let dead = servers[0].url();
    servers[0].kill();
    let init_of = "fleet init --node-budget 5s";
    ask(&servers[..3], init_of).says(69, &format!("every node is needed: {dead}"));
    servers[0].restart();
    init(&servers[..3]);
    let ended = ask(&servers[1..], init_of);
    assert!(matches!(ended.code, Some(65 | 69)), "{}", ended.stderr);
    assert!(ended.stderr.contains("a node of another fleet: "), "{}", ended.stderr);
    // It can be interrupted.
    servers[2].signal("STOP");
    until("it is interrupted before it ends", || {
        let child = fencing(&servers[..3], init_of).spawn().unwrap();
        until("it listens, or has ended", || catches(child.id(), 15) || !runs(child.id()));
        signal(child.id(), "TERM");
        let ended = end(child);
        ended.code == Some(143) && ended.stderr.contains("run the same command again")
    });
    servers[2].signal("CONT");
    init(&servers[..3]);
}
