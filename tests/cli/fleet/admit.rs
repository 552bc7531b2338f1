//! `fencing fleet recover`: nodes come back with no application running.

use fencing::lock::{AcquireError, Fault};
use support::redis::IN_MEMORY;

use crate::fleet::place::*;

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
fn a_node_that_was_flushed_comes_back() {
    let servers = started(servers(3));
    let first = lease(&servers, "--ttl 50s").unwrap();
    servers[0].cli(&["FLUSHALL"]);
    let printed = admit(&servers, "");
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0].contains(": admitted, grants nothing for another "), "{}", lines[0]);
    assert!(lines[1].contains(": admitted; "), "{}", lines[1]);
    assert!(lines[3].starts_with("Leases are granted now."), "{}", lines[3]);
    assert!(lease(&servers, "").unwrap() > first);
}

#[test]
fn a_quarantine_ends_by_the_operators_word() {
    let servers = servers(3);
    // New nodes are started as a client would.
    admit(&servers, "--ttl 1h");
    nodes(&servers, 69, "3 of the others are quarantined");
    init(&servers);
    let first = lease(&servers, "--ttl 1h --wait 0s --node-budget 20s").unwrap();
    servers[0].cli(&["FLUSHALL"]);
    servers[1].cli(&["FLUSHALL"]);
    admit(&servers, "--ttl 1h");
    lease(&servers, "--wait 0s").unwrap_err().says(69, "");
    // Without --yes it is only explained.
    ask(&servers, "fleet recover --now").prints(64, "").says(64, "two clients hold it at the same time");
    nodes(&servers, 69, "2 of the others are quarantined");
    let printed = admit(&servers, "--now --yes");
    assert!(printed.contains("quarantine ended: "), "{printed}");
    assert!(lease(&servers, "--ttl 50s --wait 0s --node-budget 20s").unwrap() > first);
    let printed = admit(&servers, "--now --yes");
    assert!(printed.contains("no quarantine was ended"), "{printed}");
}

#[test]
fn a_quarantine_of_a_node_that_does_not_answer_is_not_ended() {
    let servers = started(servers(3));
    servers[0].cli(&["SET", "{fencing}:quarantine", "1", "PX", "3600000"]);
    servers[1].signal("STOP");
    let said = ask(&servers, "fleet recover --now --yes --node-budget 3s");
    let words = format!("these nodes may still be quarantined: {}: timed out", servers[1].url());
    assert!(said.stdout.contains(&format!("quarantine ended: {}\n", servers[0].url())), "{said:?}");
    said.says(69, &words);
    servers[1].signal("CONT");
}

/// Its own nodes must not start it: the counts of the old list would be lost.
#[test]
fn a_list_that_is_half_moved_is_left_to_the_move() {
    let servers = servers(4);
    let (from, to) = (urls(&servers[..3]), urls(&servers[1..]));
    init(&from);
    half_moved(&servers[..3], &to);
    let words = "the move from another list to this one has begun, and is not done: run that move again";
    ask(&to, "fleet recover --ttl 10s --node-budget 2s").says(69, words);
    assert_eq!(finish(mover(&from, &to)).code, Some(0));
}

#[test]
fn a_start_needs_clocks_that_are_right() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::shifted(IN_MEMORY)).collect();
    servers[1].set_clock(-3600);
    let refused =
        ask(&servers, "fleet recover --ttl 10s --node-budget 2s").prints(65, "").says(65, "nothing was changed: ");
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

#[test]
fn a_start_needs_every_node() {
    let mut servers = started(servers(3));
    lease(&servers, "--ttl 4s").unwrap();
    servers[0].cli(&["FLUSHALL"]);
    servers[1].cli(&["FLUSHALL"]);
    let dead = servers[2].url();
    servers[2].kill();
    let words = format!("a new start needs every node; no answer from {dead}; if one is gone");
    ask(&servers, "fleet recover --node-budget 2s").says(64, "give --ttl, the longest TTL");
    let ended = ask(&servers, "fleet recover --ttl 4s --node-budget 2s").says(69, &words);
    assert_eq!(ended.stderr.matches(&words).count(), 2, "{}", ended.stderr);
    // Each problem is said once.
    assert!(ended.stdout.contains(&format!("{dead}: unreachable")), "{}", ended.stdout);
    assert!(!ended.stderr.contains(&format!("{dead}: unreachable")), "{}", ended.stderr);
}
