//! `fencing nodes` and `health()` tell the truth in each state that a fleet can be in.

use std::time::Duration;

use fencing::lock::Fault;
use fencing::lock::Health;
use fencing::{Lease, Redlock};

use crate::fleet::place::{
    fencing, init, lease, list, mover, nodes, resource, run, servers, service,
};
use support::cli::finish;

const HOUR: Duration = Duration::from_secs(3600);

/// A started fleet, and a client that holds a lease there.
async fn held(list: &str, ttl: Duration) -> (Redlock, Lease) {
    init(list);
    let client = service(list).ttl(ttl).build().unwrap();
    let lease = client.try_acquire(&resource()).await.unwrap();
    client.settle().await;
    (client, lease)
}

/// What a client finds that has seen nothing before.
async fn health(list: &str) -> Health {
    service(list).build().unwrap().health().await
}

fn faults(health: &Health) -> Vec<&Fault> {
    health.causes.iter().map(|cause| &cause.cause).collect()
}

#[tokio::test]
async fn never_started() {
    let list = list(&servers(3));
    let dead = nodes(&list);
    dead.assert_code(69, "no quorum: 0 of 3 nodes can grant a lock now, 2 are needed");
    dead.assert_all("unreachable: ");
    let servers = servers(3);
    let list = crate::fleet::place::list(&servers);
    let said = nodes(&list);
    said.assert_code(69, "no quorum: 0 of 3 nodes can grant a lock now, 2 are needed\n");
    said.assert_all("not admitted: it knows of no locks");
    said.assert_all(
        "`fencing fleet init` starts at once nodes that were never in use, and only those",
    );
    for node in &said.nodes {
        assert_eq!((&node["admitted"], &node["usable"]), (&false.into(), &false.into()));
        assert!(node["era"].is_null() && node["quarantine_ms"].is_null());
        assert_eq!(node["fleet"], serde_json::json!([]));
    }
    assert!(servers.iter().all(|server| server.cli(&["DBSIZE"]) == "0"), "it only reads");
    let health = health(&list).await;
    assert_eq!((health.granting, health.needed, health.has_quorum()), (0, 2, false));
    assert_eq!(faults(&health), [&Fault::NotAdmitted; 3]);
}

#[tokio::test]
async fn started_and_quarantined() {
    let servers = servers(3);
    let list = list(&servers);
    let client = service(&list).ttl(HOUR).build().unwrap();
    client.try_acquire(&resource()).await.unwrap_err();
    client.settle().await;
    let said = nodes(&list);
    said.assert_code(69, "0 of 3 nodes can grant a lock now, 2 are needed, 3 more are quarantined");
    said.assert_all(": admitted, grants nothing for another ");
    for node in &said.nodes {
        assert_eq!((&node["admitted"], &node["usable"]), (&true.into(), &false.into()));
        let left = node["quarantine_ms"].as_u64().unwrap();
        assert!((1..=3_600_001).contains(&left), "{left}");
    }
    let health = client.health().await;
    assert_eq!((health.granting, health.has_quorum()), (0, false));
    assert!(faults(&health).iter().all(|fault| matches!(fault, Fault::Quarantined(_))));
    assert_eq!(health.nodes.iter().filter(|node| node.quarantine.is_some()).count(), 3);
}

#[tokio::test]
async fn one_flushed_and_then_quarantined_and_then_a_majority() {
    let servers = servers(3);
    let list = list(&servers);
    let (client, _lease) = held(&list, HOUR).await;
    servers[0].cli(&["FLUSHALL"]);
    let said = nodes(&list);
    said.assert_code(0, "");
    assert!(said.lines[0].contains("not admitted: it knows of no locks"), "{}", said.lines[0]);
    let back = "the next client brings it back, or `fencing fleet admit`";
    assert!(said.lines[0].contains(back), "{}", said.lines[0]);
    let seen = client.health().await;
    assert_eq!((seen.granting, seen.has_quorum()), (2, true));
    assert_eq!(faults(&seen), [&Fault::NotAdmitted]);

    // Whoever asks brings it back.
    client.settle().await;
    let said = nodes(&list);
    said.assert_code(0, "");
    assert!(said.lines[0].contains("grants nothing for another "), "{}", said.lines[0]);
    let seen = client.health().await;
    assert_eq!((seen.granting, seen.has_quorum(), seen.nodes.len()), (2, true, 3));
    assert!(matches!(faults(&seen)[..], [Fault::Quarantined(_)]), "{seen:?}");

    servers[1].cli(&["FLUSHALL"]);
    client.health().await;
    client.settle().await;
    let said = nodes(&list);
    said.assert_code(69, "1 of 3 nodes can grant a lock now, 2 are needed, 2 more are quarantined");
    let seen = client.health().await;
    assert_eq!((seen.granting, seen.has_quorum(), seen.nodes.len()), (1, false, 3));
}

#[tokio::test]
async fn a_majority_has_forgotten_and_one_is_dead() {
    let mut servers = servers(4);
    let (from, to) = (list(&servers[..3]), list([&servers[0], &servers[1], &servers[3]]));
    let (client, lease_held) = held(&from, Duration::from_secs(1)).await;
    let token = lease_held.token().get();
    servers[0].cli(&["FLUSHALL"]);
    servers[1].cli(&["FLUSHALL"]);
    let dead = servers[2].url();
    servers[2].kill();
    let said = nodes(&from);
    said.assert_code(69, "0 of 3 nodes can grant a lock now");
    for line in &said.lines[..2] {
        let words = format!("it comes back only when every node answers. No answer from: {dead}.");
        assert!(line.contains(&words) && !line.contains("the next client"), "{line}");
        assert!(line.contains("`fencing fleet move` replaces it"), "{line}");
    }
    client.health().await;
    client.settle().await;
    let seen = client.health().await;
    let not_started = Fault::NotStarted { missing: vec![dead.clone()] };
    assert_eq!(faults(&seen).iter().filter(|fault| ***fault == not_started).count(), 2, "{seen:?}");
    let ended = finish(run(&from, &["--wait", "2s"], "echo never"));
    assert_eq!(ended.code, Some(69));
    let words = format!("no answer from {dead}; if one is gone for good, `fencing fleet move`");
    assert!(ended.stderr.contains(&words), "{}", ended.stderr);

    // What it says is done; first without the operator's word.
    let ended =
        finish(mover(&from, &to)).says(69, "of the old list 2 nodes must answer and remember");
    assert!(ended.stderr.contains("see --lost"), "{}", ended.stderr);
    let mut command = mover(&from, &to);
    command.args(["--lost", "--yes", "--ttl", "2s"]);
    let ended = finish(command);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(lease(&to, &["--wait", "20s"]).unwrap() > token);
}

#[tokio::test]
async fn another_fleet() {
    let servers = servers(4);
    let (one, two) = (list(&servers[..3]), list(&servers[1..]));
    init(&one);
    let said = nodes(&two);
    said.assert_code(69, "0 of 3 nodes can grant a lock now");
    for line in &said.lines[..2] {
        assert!(line.contains(": a node of another fleet: "), "{line}");
        assert!(line.contains("only `fencing fleet move` changes a fleet's list"), "{line}");
    }
    assert!(said.lines[2].contains("it can't come back in this list"), "{}", said.lines[2]);
    let members: Vec<&str> = said.nodes[0]["fleet"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    let client = service(&two).build().unwrap();
    let seen = client.health().await;
    assert!(!seen.has_quorum());
    let members: Vec<String> = members.into_iter().map(str::to_owned).collect();
    let other = Fault::OtherFleet { members };
    assert!(faults(&seen)[..2].iter().all(|fault| **fault == other), "{seen:?}");
    client.settle().await;
    // Nobody has started or changed anything.
    nodes(&one).assert_code(0, "");
    assert_eq!(nodes(&two).nodes[2]["admitted"], false);
}

#[tokio::test]
async fn moved_and_half_moved() {
    let servers = servers(4);
    let (from, to) = (list(&servers[..3]), list(&servers[1..]));
    init(&from);
    let mut sorted: Vec<String> = to.split(',').map(str::to_owned).collect();
    sorted.sort();
    // As a mover leaves it that dies between the two halves.
    for server in &servers[..3] {
        let admitted = server.cli(&["HGET", "{fencing}:memory", "admitted"]);
        let to = sorted.join(",");
        server.cli(&["HSET", "{fencing}:memory", "sealed_as", &admitted, "sealed_to", &to]);
        server.cli(&["HDEL", "{fencing}:memory", "admitted"]);
    }
    let said = nodes(&from);
    said.assert_code(69, "0 of 3 nodes can grant a lock now");
    said.assert_all(": the fleet has moved to: ");
    said.assert_all("if it grants nothing, run `fencing fleet move` again");
    assert_eq!(said.nodes[0]["moved_to"], serde_json::json!(sorted));
    assert_eq!(faults(&health(&from).await), [&Fault::Moved { to: sorted.clone() }; 3]);
    let said = nodes(&to);
    said.assert_code(69, "0 of 3 nodes can grant a lock now");
    let words = "it has left its fleet for this list, which was not started; run `fencing fleet";
    assert!(said.lines[..2].iter().all(|line| line.contains(words)), "{:?}", said.lines);
    assert!(said.lines[2].contains("run `fencing fleet move` again"), "{}", said.lines[2]);
    assert!(!health(&to).await.has_quorum());
    let ended = lease(&to, &["--wait", "0s"]).unwrap_err();
    assert_eq!(ended.code, Some(69), "{}", ended.stderr);

    assert_eq!(finish(mover(&from, &to)).code, Some(0));
    let said = nodes(&from);
    said.assert_code(69, "0 of 3 nodes can grant a lock now");
    assert!(said.lines[0].contains(": the fleet has moved to: "), "{}", said.lines[0]);
    assert!(said.lines[1].contains(": a node of another fleet: "), "{}", said.lines[1]);
    let seen = health(&from).await;
    assert!(faults(&seen).contains(&&Fault::Moved { to: sorted }), "{seen:?}");
    assert!(lease(&to, &["--wait", "20s"]).is_ok());
    nodes(&to).assert_code(0, "");
    assert!(health(&to).await.has_quorum());
}

#[tokio::test]
async fn one_server_under_two_names() {
    let servers = servers(3);
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.sock");
    std::os::unix::fs::symlink(servers[0].socket(), &other).unwrap();
    let twice = format!("unix://{},{}", other.display(), list(&servers[..2]));
    let said = nodes(&twice);
    said.assert_code(69, "one server is in the list under two names, and has one vote");
    let twins: Vec<_> = said.lines.iter().filter(|l| l.contains("the same server as ")).collect();
    assert_eq!(twins.len(), 1, "{:?}", said.lines);
    let seen = health(&twice).await;
    assert_eq!(faults(&seen).iter().filter(|f| matches!(f, Fault::SameServer(_))).count(), 1);
    fencing(&twice, &["fleet", "init"]).says(69, "the same server as ");
}

#[tokio::test]
async fn crowded_and_the_longest_lock() {
    let servers = servers(3);
    let list = list(&servers);
    let (client, _lease) = held(&list, HOUR).await;
    let fill = "for i = 1, 100000 do redis.call('HSET', KEYS[1], 'c:' .. i, 1) end";
    servers[0].cli(&["EVAL", fill, "1", "{fencing}:memory"]);
    let said = nodes(&list);
    said.assert_code(0, "");
    assert!(said.lines[0].contains("100001 counts (crowded)"), "{}", said.lines[0]);
    assert!(!said.lines[1].contains("crowded"), "{}", said.lines[1]);
    assert_eq!(said.nodes[0]["crowded"], true);
    assert_eq!((&said.nodes[1]["crowded"], &said.nodes[1]["counts"]), (&false.into(), &1.into()));
    // An eighth more than the hour, at most.
    for node in &said.nodes {
        let longest = node["longest_ms"].as_u64().unwrap();
        assert!((3_500_000..=4_051_000).contains(&longest), "{longest}");
    }
    let seen = client.health().await;
    assert!(seen.has_quorum() && seen.causes.is_empty(), "{seen:?}");
    assert!(seen.nodes[0].crowded && !seen.nodes[1].crowded, "{seen:?}");
    assert_eq!((seen.nodes[0].counts, seen.nodes[1].counts), (100_001, 1));
    assert!(seen.nodes.iter().all(|n| n.longest > HOUR.mul_f64(0.97)), "{seen:?}");
    assert_eq!(seen.nodes[0].era, said.era(0));
    assert_eq!(
        seen.fleet,
        said.nodes[0]["fleet"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    );
}
