//! `fencing fleet admit`: nodes come back with no application running.

use fencing::lock::AcquireError;
use fencing::lock::Fault;

use crate::fleet::place::{durable, fencing, init, lease, list, nodes, resource, servers, service};

#[tokio::test]
async fn all_were_restarted_one_at_a_time_while_nobody_asked() {
    let mut servers = durable(3);
    let list = list(&servers);
    init(&list);
    let first = lease(&list, &["--ttl", "1s"]).unwrap();
    for server in &mut servers {
        server.restart();
    }
    let strict = service(&list).strict(true).build().unwrap();
    let error = strict.try_acquire(&resource()).await.unwrap_err();
    strict.settle().await;
    assert!(matches!(error, AcquireError::NoQuorum { granted: 0, .. }), "{error}");
    let health = strict.health().await;
    assert!(health.causes.iter().all(|c| c.cause == Fault::Strict), "{:?}", health.causes);
    assert!(health.causes[0].to_string().contains("`fencing fleet admit`"), "{health:?}");
    // New they are not.
    assert_eq!(fencing(&list, &["fleet", "init"]).code, Some(65));

    let ended = fencing(&list, &["fleet", "admit", "--ttl", "2s"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    assert_eq!(ended.stdout.matches(": admitted, grants nothing for another ").count(), 3);
    assert!(ended.stdout.contains("Leases are granted in "), "{}", ended.stdout);
    let lease = strict.acquire(&resource()).await.unwrap();
    assert!(lease.token().get() > first);
}

#[test]
fn a_node_that_was_flushed_comes_back() {
    let servers = servers(3);
    let list = list(&servers);
    init(&list);
    let first = lease(&list, &["--ttl", "50s"]).unwrap();
    servers[0].cli(&["FLUSHALL"]);
    let ended = fencing(&list, &["fleet", "admit"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert!(lines[0].contains(": admitted, grants nothing for another "), "{}", lines[0]);
    assert!(lines[1].contains(": admitted; "), "{}", lines[1]);
    assert!(lines[3].starts_with("Leases are granted now."), "{}", lines[3]);
    assert!(lease(&list, &["--wait", "20s"]).unwrap() > first);
}

#[test]
fn a_quarantine_ends_by_the_operators_word() {
    let servers = servers(3);
    let list = list(&servers);
    init(&list);
    let first = lease(&list, &["--ttl", "1h"]).unwrap();
    servers[0].cli(&["FLUSHALL"]);
    servers[1].cli(&["FLUSHALL"]);
    assert_eq!(fencing(&list, &["fleet", "admit", "--ttl", "1h"]).code, Some(0));
    assert_eq!(lease(&list, &["--wait", "0s"]).unwrap_err().code, Some(69));
    // Without --yes it is only explained.
    let ended = fencing(&list, &["fleet", "admit", "--now"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(64), ""));
    assert!(ended.stderr.contains("two clients hold it at one time"), "{}", ended.stderr);
    nodes(&list).assert_code(69, "2 more are quarantined");
    let ended = fencing(&list, &["fleet", "admit", "--now", "--yes"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    assert!(ended.stdout.contains("quarantine ended: "), "{}", ended.stdout);
    assert!(lease(&list, &["--wait", "0s"]).unwrap() > first);
    let ended = fencing(&list, &["fleet", "admit", "--now", "--yes"]);
    assert!(ended.stdout.contains("no node was quarantined"), "{}", ended.stdout);
}

#[test]
fn new_nodes_are_started_as_a_client_would() {
    let servers = servers(3);
    let list = list(&servers);
    let ended = fencing(&list, &["fleet", "admit", "--ttl", "1h"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    nodes(&list).assert_code(69, "3 more are quarantined");
    init(&list);
    assert!(lease(&list, &["--wait", "0s"]).is_ok());
}

#[test]
fn a_start_needs_every_node() {
    let mut servers = servers(3);
    let list = list(&servers);
    init(&list);
    lease(&list, &["--ttl", "1s"]).unwrap();
    servers[0].cli(&["FLUSHALL"]);
    servers[1].cli(&["FLUSHALL"]);
    let dead = servers[2].url();
    servers[2].kill();
    let ended = fencing(&list, &["fleet", "admit"]);
    assert_eq!(ended.code, Some(69), "{}", ended.stdout);
    let words = format!("a new start needs every node; no answer from {dead}; if one is gone");
    assert_eq!(ended.stderr.matches(&words).count(), 2, "{}", ended.stderr);
    // Each problem is said once.
    assert!(ended.stdout.contains(&format!("{dead}: unreachable")), "{}", ended.stdout);
    assert!(!ended.stderr.contains(&format!("{dead}: unreachable")), "{}", ended.stderr);
}

#[test]
fn a_long_lease_that_was_released_closes_nobody() {
    let servers = servers(3);
    let list = list(&servers);
    init(&list);
    lease(&list, &["--ttl", "24h"]).unwrap();
    // Two forget, one after the other; each is brought back by the others.
    for server in &servers[..2] {
        server.cli(&["FLUSHALL"]);
        assert_eq!(fencing(&list, &["fleet", "admit"]).code, Some(0));
    }
    assert!(lease(&list, &["--ttl", "1s", "--wait", "20s"]).is_ok());
}
