//! `fencing nodes` tells how the nodes stand, and changes nothing.

use serde_json::Value;

use support::cli::{Ended, fencing, finish, five, lines_of, run, urls};
use support::redis::{self, RedisServer};

fn nodes(servers: &[RedisServer]) -> Ended {
    let mut command = fencing(servers);
    command.args(["nodes", "--node-budget", "2s"]);
    finish(command)
}

/// For each node, the lines that name it.
fn lines(servers: &[RedisServer], ended: &Ended) -> Vec<String> {
    servers.iter().map(|server| lines_of(&ended.stdout, &server.url())).collect()
}

fn json(servers: &[RedisServer]) -> (Option<i32>, Vec<Value>) {
    let mut command = fencing(servers);
    command.args(["nodes", "--json", "--node-budget", "2s"]);
    let ended = finish(command);
    (ended.code, serde_json::from_str(&ended.stdout).unwrap())
}

fn five_admitted() -> Vec<RedisServer> {
    let servers = five();
    let ended = finish(run(&servers, &["--ttl", "6s"], "sleep 0.2"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    support::cli::until("all five", || json(&servers).1.iter().all(|n| n["admitted"] == true));
    servers
}

#[test]
fn healthy_nodes() {
    let servers = five_admitted();
    let ended = nodes(&servers);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 5);
    let (code, objects) = json(&servers);
    assert_eq!((code, objects.len()), (Some(0), 5));
    for ((server, line), object) in servers.iter().zip(lines).zip(&objects) {
        let admitted = server.cli(&["HGET", "{fencing}:memory", "admitted"]);
        let (id, fleet) = admitted.split_once(' ').unwrap();
        let era = server.cli(&["HGET", "{fencing}:memory", "era"]);
        assert!(line.starts_with(&format!("{}: admitted", server.url())), "{line}");
        assert!(line.contains(&format!("; era {era}, 1 counts, longest lock ")), "{line}");
        let rest = format!(", run_id {id}, policy noeviction (no maxmemory)");
        assert!(line.ends_with(&rest), "{line}");
        let members: Vec<&str> = fleet.split(',').collect();
        assert_eq!(object["fleet"], serde_json::json!(members));
        assert!(object["moved_to"].is_null() && object["quarantine_ms"].is_null());
        assert_eq!((&object["counts"], &object["crowded"]), (&1.into(), &false.into()));
        assert!(object["longest_ms"].as_u64().unwrap() <= 7000);
        assert_eq!(object["node"], server.url());
        assert_eq!(object["reachable"], true);
        assert_eq!(object["usable"], true);
        assert_eq!(object["run_id"], id);
        assert_eq!(object["admitted_as"], id);
        assert_eq!(object["era"].to_string(), era);
        assert_eq!(object["maxmemory"], 0);
        assert_eq!(object["maxmemory_policy"], "noeviction");
        assert!(object["version"].is_string());
    }
}

#[test]
fn nothing_is_changed_on_a_blank_node() {
    let servers = redis::five();
    let ended = nodes(&servers);
    assert_eq!(ended.code, Some(69));
    assert!(ended.stderr.contains("no quorum: 0 of 5 nodes can grant a lock now, 3 are needed"));
    // Each node has its line; what all of them have is printed once.
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 6, "{}", ended.stdout);
    let all: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let once = format!("{}: not admitted: it knows of no locks", all.join(", "));
    assert!(lines[5].starts_with(&once), "{}", lines[5]);
    for (server, line) in servers.iter().zip(lines) {
        assert!(line.starts_with(&format!("{}: era none, ", server.url())), "{line}");
        assert_eq!(server.cli(&["DBSIZE"]), "0");
    }
    let (code, objects) = json(&servers);
    assert_eq!((code, objects.len()), (Some(69), 5));
    for object in objects {
        assert_eq!((&object["reachable"], &object["admitted"]), (&true.into(), &false.into()));
        assert_eq!(object["problem"], "not admitted");
        assert!(object["era"].is_null() && object["admitted_as"].is_null());
    }
}

#[test]
fn killed_and_stopped_nodes() {
    let mut servers = five_admitted();
    servers[0].kill();
    servers[1].signal("STOP");
    let ended = nodes(&servers);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines = lines(&servers, &ended);
    assert!(lines[0].starts_with(&format!("{}: unreachable: ", servers[0].url())), "{}", lines[0]);
    assert!(lines[0].contains("is it running?"), "{}", lines[0]);
    assert!(lines[1].contains("timed out: no answer within 2s"), "{}", lines[1]);
    let (_, objects) = json(&servers);
    for object in &objects[..2] {
        assert_eq!((&object["reachable"], &object["usable"]), (&false.into(), &false.into()));
        assert!(object["problem"].is_string() && object["run_id"].is_null());
    }
    servers[2].kill();
    assert_eq!(nodes(&servers).code, Some(69));
}

#[test]
fn forgetful_nodes() {
    let mut servers = five_admitted();
    servers[0].cli(&["FLUSHALL"]);
    // It comes back with what it had: the memory is of another life.
    let memory = servers[1].cli(&["HGET", "{fencing}:memory", "admitted"]);
    servers[1].restart();
    servers[1].cli(&["HSET", "{fencing}:memory", "admitted", &memory, "era", "7"]);
    servers[2].cli(&["SET", "{fencing}:quarantine", "1", "PX", "60000"]);
    let ended = nodes(&servers);
    assert_eq!(ended.code, Some(69));
    let words = "2 of 5 nodes can grant a lock now, 3 are needed, 1 more is quarantined";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    let lines = lines(&servers, &ended);
    assert!(lines[0].contains("not admitted: it knows of no locks"), "{}", lines[0]);
    assert!(lines[1].contains("not admitted: it has restarted since"), "{}", lines[1]);
    assert!(lines[2].contains("admitted, grants nothing for another "), "{}", lines[2]);
    let (_, objects) = json(&servers);
    assert_eq!(objects[1]["admitted_as"], memory.split(' ').next().unwrap());
    assert_eq!(objects[1]["admitted"], false);
    let left = objects[2]["quarantine_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&left), "{left}");
    assert_eq!((&objects[2]["admitted"], &objects[2]["usable"]), (&true.into(), &false.into()));
}

#[test]
fn nodes_that_cannot_keep_locks() {
    let servers = five_admitted();
    servers[0].cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    servers[0].cli(&["CONFIG", "SET", "maxmemory", "100mb"]);
    servers[1].cli(&["REPLICAOF", "127.0.0.1", "1"]);
    servers[2].cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let ended = nodes(&servers);
    let lines = lines(&servers, &ended);
    assert!(
        lines[0].contains("maxmemory-policy is allkeys-lru; it must be noeviction"),
        "{}",
        lines[0]
    );
    assert!(lines[0].contains("CONFIG SET maxmemory-policy noeviction"), "{}", lines[0]);
    assert!(lines[1].contains("not a master"), "{}", lines[1]);
    assert!(lines[2].contains(": admitted"), "harmless without maxmemory: {}", lines[2]);
    assert_eq!(ended.code, Some(0));
    let (_, objects) = json(&servers);
    assert_eq!(objects[0]["maxmemory"], 100 * 1024 * 1024);
    assert_eq!(objects[0]["usable"], false);
    assert_eq!(objects[1]["problem"], "not a master");
}

#[test]
fn a_node_that_wants_a_password() {
    let servers = five_admitted();
    servers[0].cli(&["CONFIG", "SET", "requirepass", "s3cret"]);
    let ended = nodes(&servers);
    let line = &lines(&servers, &ended)[0];
    assert!(line.contains("not permitted: "), "{line}");
    assert!(line.contains("(check user, password and ACL)"), "{line}");
    for (password, words) in [("s3cret", ": admitted"), ("wr0ng", "not permitted: ")] {
        let mut command = fencing(&servers[1..]);
        let first = format!("{}?pass={password}", servers[0].url());
        let list = format!("{first},{}", urls(&servers[1..]));
        command.args(["nodes", "--redis", &list]);
        let ended = finish(command);
        assert!(ended.stdout.contains(words), "{}{}", ended.stdout, ended.stderr);
        assert!(!format!("{}{}", ended.stdout, ended.stderr).contains(password));
    }
}
