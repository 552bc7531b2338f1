//! `fencing fleet init`: new nodes grant at once, and nodes in use stay as they are. `fencing fleet recover`: nodes
//! come back with no application running.

use fencing::lock::{AcquireError, Fault};
use support::process::signal;
use support::redis::IN_MEMORY;

use crate::fleet::place::*;
use crate::status::catches;

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
    let first = lease(&servers, WHILE).unwrap();
    let era = nodes(&servers, 0, "").number(1, "era");
    // One has forgotten, and may have forgotten a lock.
    servers[0].cli(&["FLUSHALL"]);
    init(&servers);
    assert_eq!(servers[0].cli(&["DBSIZE"]), "1", "only what marks its memory");
    let printed = admit(&servers, "");
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0].contains(": admitted, grants nothing for another "), "{}", lines[0]);
    assert!(lines[1].contains(": admitted; "), "{}", lines[1]);
    assert!(lines[3].starts_with("Leases are granted now."), "{}", lines[3]);
    assert!(lease(&servers, "").unwrap() > first);
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

#[tokio::test]
async fn all_were_restarted_one_at_a_time_while_nobody_asked() {
    // They lose nothing in a restart, but their life.
    let durable = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    let mut servers = started((0..3).map(|_| RedisServer::with(&durable)).collect());
    let first = lease(&servers, "--ttl 4s").unwrap();
    servers.iter_mut().for_each(RedisServer::restart);
    let strict = service(&servers).strict(true).build().unwrap();
    let error = strict.try_acquire(&resource()).await.unwrap_err();
    strict.settle().await;
    assert!(matches!(error, AcquireError::NoQuorum { granted: 0, .. }), "{error}");
    let health = strict.health().await;
    assert!(health.causes.iter().all(|c| c.cause == Fault::Strict), "{:?}", health.causes);
    assert!(health.causes[0].to_string().contains("`fencing fleet recover`"), "{health:?}");
    // New they are not.
    ask(&servers, "fleet init --node-budget 5s").says(65, "");

    let printed = admit(&servers, "--ttl 6s");
    assert_eq!(printed.matches(": admitted, grants nothing for another ").count(), 3);
    assert!(printed.contains("Leases are granted in "), "{printed}");
    let lease = strict.acquire(&resource()).await.unwrap();
    assert!(lease.token().get() > first);
}

#[test]
fn a_quarantine_ends_by_the_operators_word() {
    let servers = servers(3);
    // New nodes are started as a client would.
    admit(&servers, "--ttl 1h");
    nodes(&servers, 69, "3 are quarantined");
    init(&servers);
    let first = lease(&servers, "--ttl 1h --wait 0s --node-budget 20s").unwrap();
    servers[0].cli(&["FLUSHALL"]);
    servers[1].cli(&["FLUSHALL"]);
    admit(&servers, "--ttl 1h");
    lease(&servers, "--wait 0s").unwrap_err().says(69, "");
    // Without --yes it is only explained.
    ask(&servers, "fleet recover --now").prints(64, "").says(64, "two clients hold it at the same time");
    nodes(&servers, 69, "2 are quarantined");
    let printed = admit(&servers, "--now --yes");
    assert!(printed.contains("quarantine ended: "), "{printed}");
    assert!(lease(&servers, "--ttl 50s --wait 0s --node-budget 20s").unwrap() > first);
    let printed = admit(&servers, "--now --yes");
    assert!(printed.contains("no quarantine was ended"), "{printed}");
}

/// As a script that restarts one node after another must see.
#[test]
fn a_node_that_does_not_answer_stays_quarantined_and_one_that_is_down_is_not_back() {
    let mut servers = started(servers(3));
    servers[0].cli(&["SET", "{fencing}:quarantine", "1", "PX", "3600000"]);
    servers[1].signal("STOP");
    let said = ask(&servers, "fleet recover --now --yes --node-budget 3s");
    let words = format!("these nodes may still be quarantined: {}: timed out", servers[1].url());
    assert!(said.stdout.contains(&format!("quarantine ended: {}\n", servers[0].url())), "{said:?}");
    said.says(69, &words);
    servers[1].signal("CONT");

    servers[1].kill();
    let words = format!("not brought back: {}", servers[1].url());
    let ended = ask(&servers, "fleet recover --node-budget 2s").says(65, &words);
    assert!(ended.stdout.contains("Leases are granted now."), "{ended:?}");
}

/// Its own nodes must not start it: the counts of the old list would be lost.
#[test]
fn a_list_that_is_half_moved_is_left_to_the_move() {
    let (servers, from, to) = two_lists(4, 1);
    half_moved(&servers[..3], &to);
    let words = "the move from another list to this one has begun, and is not done: restart none of these nodes";
    ask(&to, "fleet recover --ttl 10s --node-budget 2s").says(69, words);
    ask(&to, "fleet init --node-budget 2s").says(69, words);
    assert_eq!(finish(mover(&from, &to)).code, Some(0));
}

#[test]
fn a_start_needs_clocks_that_are_right() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::shifted(IN_MEMORY)).collect();
    servers[1].set_clock(-3600);
    let refused =
        ask(&servers, "fleet recover --ttl 10s --node-budget 2s").prints(65, "").says(65, "nothing was changed, as ");
    let words = format!("{}: its clock and this machine's clock are ", servers[1].url());
    assert!(refused.stderr.contains(&words), "{refused:?}");
    servers.iter().for_each(|server| assert_eq!(server.cli(&["DBSIZE"]), "0"));
    servers[1].set_clock(0);
    ask(&servers, "fleet recover").says(64, "give --ttl, the longest TTL");
    admit(&servers, "--ttl 10s");
    // Nodes that remember know their tokens.
    servers[1].set_clock(-3600);
    servers[0].cli(&["FLUSHALL"]);
    admit(&servers, "");
}
