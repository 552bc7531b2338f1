//! `fencing nodes` and `health()` tell the truth in each state that a fleet can be in, and change nothing. What is
//! never said, and what a namespace keeps apart.

use fencing::lock::{Fault, Health};
use fencing::{Lease, Redlock};
use serde_json::json;

use crate::fleet::place::*;

const HOUR: Duration = Duration::from_secs(3600);

async fn held(list: &(impl Place + ?Sized), ttl: Duration) -> (Redlock, Lease) {
    let client = service(list).ttl(ttl).node_budget(BUDGET.min(ttl / 2)).build().unwrap();
    let lease = client.try_acquire(&resource()).await.unwrap();
    client.settle().await;
    (client, lease)
}

/// What a client finds that has seen nothing before.
async fn health(list: &(impl Place + ?Sized)) -> Health {
    service(list).build().unwrap().health().await
}

fn faults(health: &Health) -> Vec<&Fault> {
    health.causes.iter().map(|cause| &cause.cause).collect()
}

#[test]
fn healthy_nodes() {
    let servers = five();
    until("all have counted", || {
        let ended = finish(run(&servers, "--ttl 6s --node-budget 3s", "sleep 0.2"));
        ended.code == Some(0) && servers.iter().all(|server| server.cli(&["HEXISTS", MEMORY, "c:invoice/42"]) == "1")
    });
    let said = nodes(&servers, 0, "");
    assert_eq!(said.stdout.lines().count(), 5);
    for (number, server) in servers.iter().enumerate() {
        let admitted = server.cli(&["HGET", MEMORY, "admitted"]);
        let (id, fleet) = admitted.split_once(' ').unwrap();
        let era: u64 = server.cli(&["HGET", MEMORY, "era"]).parse().unwrap();
        let line = &said.lines[number];
        assert!(line.starts_with(&format!("{}: admitted; ", server.url())), "{line}");
        said.assert(number, &format!("; era {era}, 1 counts, longest lock "));
        let rest = format!(", run_id {id}, policy noeviction (no maxmemory)");
        assert!(line.ends_with(&rest), "{line}");
        assert!(said.number(number, "longest_ms") <= 7000);
        assert!(said.nodes[number]["version"].is_string());
        let members: Vec<&str> = fleet.split(',').collect();
        let expected = json!({
            "node": server.url(), "reachable": true, "usable": true, "run_id": id,
            "admitted": true, "admitted_as": id, "fleet": members, "moved_to": null,
            "quarantine_ms": null, "era": era, "counts": 1, "crowded": false, "maxmemory": 0,
            "maxmemory_policy": "noeviction",
        });
        said.assert_json(number, &expected);
    }
}

#[tokio::test]
async fn never_started() {
    let servers = servers(3);
    let list = urls(&servers);
    let quorum = "no quorum: 0 of 3 nodes can grant a lock now, 2 are needed\n";
    let said = nodes(&list, 69, quorum);
    said.assert_all("if these nodes were never in use, and only then, `fencing fleet init` starts them at once");
    // Each node has its line; what all of them have is printed once.
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{}", said.stdout);
    let all = list.replace(',', ", ") + ": not admitted: it knows of no locks";
    assert!(lines[3].starts_with(&all), "{}", lines[3]);
    for (node, server) in servers.iter().enumerate() {
        assert!(lines[node].starts_with(&format!("{}: era none, ", server.url())), "{}", lines[node]);
        let expected = json!({
            "reachable": true, "admitted": false, "usable": false, "problem": "not admitted",
            "era": null, "admitted_as": null, "quarantine_ms": null, "fleet": [],
        });
        said.assert_json(node, &expected);
        assert_eq!(server.cli(&["DBSIZE"]), "0", "it changes nothing");
    }
    let health = health(&list).await;
    assert_eq!((health.granting, health.needed, health.has_quorum()), (0, 2, false));
    assert_eq!(faults(&health), [&Fault::NotAdmitted; 3]);
    drop(servers);
    nodes(&list, 69, quorum.trim_end()).assert_all("unreachable: ");
}

#[test]
fn nodes_that_do_not_answer_or_have_forgotten() {
    let mut servers = started(servers(5));
    servers[0].kill();
    servers[1].signal("STOP");
    let said = nodes(&servers, 0, "");
    assert!(said.lines[0].starts_with(&format!("{}: unreachable: ", servers[0].url())));
    said.assert(0, "is it running?");
    said.assert(1, "timed out: no answer within 10s");
    for node in [0, 1] {
        said.assert_json(node, &json!({"reachable": false, "usable": false, "run_id": null}));
        assert!(said.nodes[node]["problem"].is_string());
    }
    servers[1].signal("CONT");
    // It comes back with what it had: the memory is of another life.
    let memory = servers[1].cli(&["HGET", MEMORY, "admitted"]);
    servers[1].restart();
    servers[1].cli(&["HSET", MEMORY, "admitted", &memory, "era", "7"]);
    servers[2].cli(&["SET", "{fencing}:quarantine", "1", "PX", "60000"]);
    let words = "2 of 5 nodes can grant a lock now, 3 are needed; 1 is quarantined";
    let said = nodes(&servers, 69, words);
    said.assert(1, "not admitted: it has restarted since");
    said.assert_json(1, &json!({"admitted": false, "admitted_as": memory.split(' ').next()}));
    said.assert(2, "admitted, grants nothing for another ");
    said.assert_json(2, &json!({"admitted": true, "usable": false}));
    assert!((1..=60_000).contains(&said.number(2, "quarantine_ms")));
}

#[tokio::test]
async fn one_flushed_and_then_quarantined_and_then_a_majority() {
    let servers = started(servers(3));
    let (client, _lease) = held(&servers, HOUR).await;
    servers[0].cli(&["FLUSHALL"]);
    let said = nodes(&servers, 0, "");
    said.assert(0, "not admitted: it knows of no locks");
    said.assert(0, "the next client brings it back, or `fencing fleet recover`");
    let seen = client.health().await;
    assert_eq!((seen.granting, seen.has_quorum()), (2, true));
    assert_eq!(faults(&seen), [&Fault::NotAdmitted]);

    // Whoever asks brings it back.
    client.settle().await;
    nodes(&servers, 0, "").assert(0, "grants nothing for another ");
    let seen = client.health().await;
    assert_eq!((seen.granting, seen.has_quorum(), seen.nodes.len()), (2, true, 3));
    assert!(matches!(faults(&seen)[..], [Fault::Quarantined(_)]), "{seen:?}");
    assert_eq!(seen.nodes.iter().filter(|node| node.quarantine.is_some()).count(), 1);

    servers[1].cli(&["FLUSHALL"]);
    client.health().await;
    client.settle().await;
    nodes(&servers, 69, "1 of 3 nodes can grant a lock now, 2 are needed; 2 are quarantined");
    let seen = client.health().await;
    assert_eq!((seen.granting, seen.has_quorum(), seen.nodes.len()), (1, false, 3));
}

#[tokio::test]
async fn a_majority_has_forgotten_and_one_is_dead() {
    let mut servers = servers(4);
    let (from, to) = (urls(&servers[..3]), urls([&servers[0], &servers[1], &servers[3]]));
    init(&from);
    let (client, lease_held) = held(&from, Duration::from_secs(4)).await;
    servers[0].cli(&["FLUSHALL"]);
    servers[1].cli(&["FLUSHALL"]);
    let dead = servers[2].url();
    servers[2].kill();
    let said = nodes(&from, 69, "0 of 3 nodes can grant a lock now");
    for node in [0, 1] {
        let words = format!("it comes back only when every node answers. No answer from: {dead}.");
        said.assert(node, &words);
        said.assert(node, "start an empty server under its name");
        assert!(!said.lines[node].contains("the next client"), "{}", said.lines[node]);
    }
    client.health().await;
    client.settle().await;
    let seen = client.health().await;
    let not_started = Fault::NotStarted { missing: vec![dead.clone()] };
    assert_eq!(faults(&seen).iter().filter(|fault| ***fault == not_started).count(), 2, "{seen:?}");
    let words = format!("no answer from {dead}; if one is gone for good, start an empty server under its name");
    lease(&from, "--wait 2s").unwrap_err().says(69, &words);
    ask(&from, "fleet recover --node-budget 2s").says(69, "give --ttl, the longest TTL");
    let words = format!("a new start needs every node; no answer from {dead}; if one is gone");
    let ended = ask(&from, "fleet recover --ttl 4s --node-budget 2s").says(69, &words);
    assert_eq!(ended.stderr.matches(&words).count(), 2, "{}", ended.stderr);
    // Each problem is said once.
    assert!(ended.stdout.contains(&format!("{dead}: unreachable")), "{}", ended.stdout);
    assert!(!ended.stderr.contains(&format!("{dead}: unreachable")), "{}", ended.stderr);

    // What it says is done; first without the operator's word.
    let words = "0 of 3 nodes of --from answer with their state, and 2 are needed: nothing was changed";
    let ended = finish(mover(&from, &to)).says(69, words);
    assert!(ended.stderr.contains("see --lost"), "{}", ended.stderr);
    let mut command = mover(&from, &to);
    command.args(["--lost", "--yes", "--ttl", "10s"]);
    assert_eq!(finish(command).code, Some(0));
    assert!(lease(&to, "--wait 60s").unwrap() > lease_held.token().get());
}

#[tokio::test]
async fn another_fleet() {
    let servers = servers(4);
    let (one, two) = (&servers[..3], &servers[1..]);
    init(one);
    let said = nodes(two, 69, "0 of 3 nodes can grant a lock now");
    for node in [0, 1] {
        said.assert(node, ": a node of another fleet: ");
        said.assert(node, "only `fencing fleet move` changes a fleet's list");
    }
    said.assert(2, "it can't come back in this list");
    let members: Vec<String> = serde_json::from_value(said.nodes[0]["fleet"].clone()).unwrap();
    let client = service(two).build().unwrap();
    let seen = client.health().await;
    assert!(!seen.has_quorum());
    let other = Fault::OtherFleet { members };
    assert!(faults(&seen)[..2].iter().all(|fault| **fault == other), "{seen:?}");
    client.settle().await;
    // Nobody has started or changed anything.
    nodes(one, 0, "");
    assert_eq!(nodes(two, 69, "").all("admitted")[2], false);
}

#[tokio::test]
async fn moved_and_half_moved() {
    let (servers, from, to) = two_lists(4, 1);
    let names = half_moved(&servers[..3], &to);
    let said = nodes(&from, 69, "0 of 3 nodes can grant a lock now");
    said.assert_all(": the fleet has moved to: ");
    said.assert_all("otherwise run the move again");
    said.assert_json(0, &json!({"moved_to": names}));
    assert_eq!(faults(&health(&from).await), [&Fault::Moved { to: names.clone() }; 3]);
    let said = nodes(&to, 69, "0 of 3 nodes can grant a lock now");
    let words = "it has left its fleet for this list, which was not started; run `fencing fleet";
    said.assert(0, words);
    said.assert(1, words);
    said.assert(2, "run `fencing fleet move` again");
    assert!(!health(&to).await.has_quorum());
    lease(&to, "--wait 0s").unwrap_err().says(69, "");

    assert_eq!(finish(mover(&from, &to)).code, Some(0));
    let said = nodes(&from, 69, "0 of 3 nodes can grant a lock now");
    said.assert(0, ": the fleet has moved to: ");
    said.assert(1, ": a node of another fleet: ");
    let seen = health(&from).await;
    assert!(faults(&seen).contains(&&Fault::Moved { to: names }), "{seen:?}");
    lease(&to, "").unwrap();
    nodes(&to, 0, "");
    assert!(health(&to).await.has_quorum());
}

#[tokio::test]
async fn one_server_under_two_names() {
    let servers = servers(3);
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.sock");
    std::os::unix::fs::symlink(servers[0].socket(), &other).unwrap();
    let twice = format!("unix://{},{}", other.display(), urls(&servers[..2]));
    let words = "one server is in the list under two names, and has one vote";
    let said = nodes(&twice, 69, words);
    let twins = said.lines.iter().filter(|line| line.contains("the same server as ")).count();
    assert_eq!(twins, 1, "{}", said.stdout);
    let seen = health(&twice).await;
    assert_eq!(faults(&seen).iter().filter(|f| matches!(f, Fault::SameServer(_))).count(), 1);
    ask(&twice, "fleet init --node-budget 5s").says(69, "the same server as ");
    let point_to = |server: &RedisServer| {
        std::fs::remove_file(&other).unwrap();
        std::os::unix::fs::symlink(server.socket(), &other).unwrap();
    };
    point_to(&servers[2]);
    init(&twice);
    // A majority grants all the same.
    point_to(&servers[0]);
    nodes(&twice, 65, words);
    servers[1].cli(&["FLUSHALL"]);
    ask(&twice, "fleet recover --node-budget 5s").says(64, "give --ttl, the longest TTL");
}

#[tokio::test]
async fn crowded_and_the_longest_lock() {
    let servers = started(servers(3));
    let (client, _lease) = held(&servers, HOUR).await;
    let fill = "for i = 1, 100000 do redis.call('HSET', KEYS[1], 'c:' .. i, 1) end";
    servers[0].cli(&["EVAL", fill, "1", MEMORY]);
    let said = nodes(&servers, 0, "");
    said.assert(0, "100001 counts (crowded)");
    assert!(!said.lines[1].contains("crowded"), "{}", said.lines[1]);
    said.assert_json(0, &json!({"crowded": true, "counts": 100_001}));
    said.assert_json(1, &json!({"crowded": false, "counts": 1}));
    // An eighth more than the hour, at most.
    for node in 0..3 {
        let longest = said.number(node, "longest_ms");
        assert!((3_500_000..=4_051_000).contains(&longest), "{longest}");
    }
    let seen = client.health().await;
    assert!(seen.has_quorum() && seen.causes.is_empty(), "{seen:?}");
    assert!(seen.nodes[0].crowded && !seen.nodes[1].crowded, "{seen:?}");
    assert_eq!((seen.nodes[0].counts, seen.nodes[1].counts), (100_001, 1));
    assert!(seen.nodes.iter().all(|n| n.longest > HOUR.mul_f64(0.97)), "{seen:?}");
    assert_eq!(seen.nodes[0].era, said.number(0, "era"));
    assert_eq!(said.nodes[0]["fleet"], json!(seen.fleet));
}

#[test]
fn passwords_are_never_printed() {
    let servers = servers(4);
    for server in &servers {
        server.cli(&["CONFIG", "SET", "requirepass", "s3cret"]);
    }
    let with = |password: &str, servers: &[RedisServer]| {
        let urls = servers.iter().map(|server| format!("{}?pass={password}", server.url()));
        urls.collect::<Vec<_>>().join(",")
    };
    let (one, two) = (with("s3cret", &servers[..3]), with("s3cret", &servers[1..]));
    let (wrong, wrong_two) = (with("wr0ng", &servers[..3]), with("wr0ng", &servers[1..]));
    let init = "fleet init --node-budget 5s";
    let admit = "fleet recover --node-budget 2s";
    let mut by_environment = fencing("", "fleet move --node-budget 5s");
    by_environment.env("FENCING_FROM", &one).env("FENCING_TO", &two);
    for (command, code, words) in [
        (fencing(&wrong, init), 69, "not permitted: "),
        (fencing(&one, init), 0, ""),
        (fencing(&wrong, admit), 69, ""),
        (fencing(&one, admit), 0, ": admitted"),
        (fencing(&wrong, "nodes --node-budget 5s"), 69, "not permitted: "),
        (fencing(&servers[..3], "nodes --node-budget 5s"), 69, "(check user, password and ACL)"),
        (fencing(&one, "nodes --node-budget 2s"), 0, ": admitted"),
        (mover(&wrong, &two), 69, ""),
        (mover(&one, &wrong_two), 69, ""),
        (by_environment, 0, "moved. "),
        (fencing("", &format!("fleet move {one}")), 64, ""),
    ] {
        let ended = finish(command);
        let text = format!("{}{}", ended.stdout, ended.stderr);
        assert!(ended.code == Some(code) && text.contains(words), "{words}: {ended:?}");
        let shown = ["s3cret", "wr0ng"].iter().any(|password| text.contains(password));
        assert!(!text.is_empty() && !shown, "{text}");
    }
    lease(&two, "").unwrap();
}

#[test]
fn a_namespace_is_a_fleet_of_its_own() {
    let servers = servers(4);
    let (one, two) = (&servers[..3], &servers[1..]);
    init(one);
    for action in ["init", "recover"] {
        let ended = ask(two, &format!("fleet {action} --namespace other --node-budget 2s"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    let mut back = mover(&urls(two), &urls(one));
    back.args(["--namespace", "other"]);
    assert_eq!(finish(back).code, Some(0));
    nodes(one, 0, "");
    lease(one, "--ttl 50s --wait 0s --node-budget 20s").unwrap();
    lease(one, "--namespace other").unwrap();
}
