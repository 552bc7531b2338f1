//! Nodes that answer, and cannot keep locks: they evict them, are no masters, or take no writes.

use serde_json::json;

use crate::fleet::place::*;

#[test]
fn nodes_that_cannot_keep_locks() {
    let servers = started(servers(5));
    servers[0].cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    servers[0].cli(&["CONFIG", "SET", "maxmemory", "100mb"]);
    servers[1].cli(&["REPLICAOF", "127.0.0.1", "1"]);
    servers[2].cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let said = nodes(&servers, 0, "");
    said.assert(0, "maxmemory-policy is allkeys-lru; it must be noeviction");
    said.assert(0, "CONFIG SET maxmemory-policy noeviction");
    said.assert_json(0, &json!({"maxmemory": 100 << 20, "usable": false}));
    said.assert(1, "not a master");
    said.assert_json(1, &json!({"problem": "not a master"}));
    // Harmless without maxmemory.
    said.assert(2, ": admitted");
}

/// They answer and remember. A user who may not write finds nothing wrong with a node. No lease is promised there at
/// the end of their quarantine.
#[test]
fn nodes_that_take_no_writes_quarantined_or_not() {
    let servers = started(servers(3));
    servers[2].cli(&["ACL", "SETUSER", "reader", "on", ">secret", "~*", "&*", "+@all", "-set"]);
    servers[..2].iter().for_each(|server| drop(server.cli(&["CONFIG", "SET", "maxmemory", "1"])));
    let list = format!("{}?user=reader&pass=secret", urls(&servers));
    let said = nodes(&list, 69, "no quorum: 1 of 3 nodes can grant a lock now, 2 are needed\n");
    for node in [0, 1] {
        said.assert(node, ": admitted; ");
        said.assert(node, ": out of memory (raise maxmemory, or free some)");
        said.assert_json(node, &json!({"admitted": true, "usable": false}));
    }
    said.assert_json(2, &json!({"admitted": true, "usable": true}));
    ask(&servers, "fleet recover --node-budget 2s").says(69, "no quorum: 1 of 3");
    let found = ask(&servers, "doctor --node-budget 2s");
    assert!(found.code == Some(69) && found.stdout.contains("out of memory"), "{found:?}");
    assert_eq!(servers[2].cli(&["KEYS", "*:probe"]), "");

    for server in &servers[..2] {
        server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
        server.cli(&["SET", "{fencing}:quarantine", "1", "PX", "3600000"]);
        server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    }
    let said = nodes(&servers, 69, "no quorum: 1 of 3 nodes can grant a lock now, 2 are needed\n");
    for node in [0, 1] {
        said.assert(node, ": out of memory (raise maxmemory, or free some)");
        assert!(said.nodes[node]["refuses"].as_str().is_some_and(|text| text.contains("OOM")));
        assert!((1..=3_600_000).contains(&said.number(node, "quarantine_ms")));
    }
    let found = ask(&servers, "doctor --node-budget 20s");
    assert!(found.code == Some(69) && found.stdout.contains("out of memory"), "{found:?}");
}
