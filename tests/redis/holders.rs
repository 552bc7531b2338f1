//! Who holds a lock: listed for operators, and taken away by force.

use fencing::lock::RenewError;
use fencing::lock::redlock::{Forced, NodeView};

use crate::fleet::*;

const AUDIT: &str = "{fencing}:audit";
const COUNT: &str = "c:invoice/42";
/// A busy machine answers within it.
const BUDGET: Duration = Duration::from_secs(60);

fn client(servers: &[RedisServer], name: &str) -> Redlock {
    let builder = service(servers).ttl(Duration::from_secs(600)).wait(PATIENCE);
    builder.node_budget(BUDGET).holder(name).build().unwrap()
}

/// What an operator does on these servers, or on some of them.
struct Operator {
    fleet: Fleet,
    nodes: Vec<RedisNode>,
}

impl Operator {
    fn of(servers: &[RedisServer]) -> Operator {
        let node = |server: &RedisServer| RedisNode::new(&server.url(), "fencing").unwrap();
        let nodes: Vec<_> = servers.iter().map(node).collect();
        Operator { fleet: Fleet::new(nodes.iter().map(Node::member)).unwrap(), nodes }
    }

    async fn sees(&self, node: &RedisNode) -> Result<NodeView, Fault> {
        node.lock(&self.fleet, &resource(), BUDGET).await
    }

    async fn seen(&self) -> Vec<NodeView> {
        try_join_all(self.nodes.iter().map(|node| self.sees(node))).await.unwrap()
    }

    /// Takes away from one node what the nodes have shown.
    async fn force_on(&self, node: &RedisNode, seen: &[NodeView]) -> Result<Forced, Fault> {
        let mut values: Vec<_> = seen.iter().flat_map(|view| &view.locks).map(|lock| lock.value.clone()).collect();
        values.dedup();
        node.force_release(&self.fleet, &resource(), &values, seen, BUDGET).await
    }

    /// The same on all, and returns how many holders have lost it there.
    async fn force(&self, seen: &[NodeView]) -> usize {
        let mut taken = 0;
        for node in &self.nodes {
            if let Forced::Taken(holders) = self.force_on(node, seen).await.unwrap() {
                taken += holders;
            }
        }
        taken
    }
}

/// A lock that its holder does not give back, and what an operator sees of it.
async fn stuck(servers: &[RedisServer]) -> (Lease, Operator, Vec<NodeView>) {
    let lease = client(servers, "stuck").acquire(&resource()).await.unwrap();
    // A majority has granted. A node that was too slow to do so gets the lock with a renewal.
    until("all hold the lock", async || {
        let _ = lease.renew().await;
        servers.iter().all(|server| server.cli(&["EXISTS", LOCK]) == "1")
    })
    .await;
    let operator = Operator::of(servers);
    let seen = operator.seen().await;
    (lease, operator, seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_are_listed_in_small_steps() {
    let servers = [RedisServer::start()];
    let lock = client(&servers, "many");
    let mut leases = Vec::new();
    for number in 0..500 {
        leases.push(lock.acquire(&named(&format!("list/{number}"))).await.unwrap());
    }
    // Keys of others, of another namespace, and one that no client has made.
    for key in ["other", "{fencin*}:lock:x", "{fencing}2:lock:y"] {
        servers[0].cli(&["SET", key, "x"]);
    }
    servers[0].cli(&["SET", "{fencing}:lock:by hand", "x"]);
    let node = &Operator::of(&servers).nodes[0];
    let all = node.locks(|_| true, BUDGET).await.unwrap();
    assert_eq!(all.len(), 501);
    let by_hand = all.iter().find(|lock| lock.resource.as_str() == "by hand").unwrap();
    assert_eq!((&by_hand.holder, by_hand.remaining, by_hand.shared), (&None, None, false));
    let odd = node.locks(|resource| resource.as_str().ends_with("/77"), BUDGET).await.unwrap();
    assert_eq!(odd.len(), 1);
    assert_eq!(odd[0].token, Some(leases[77].token()));
    assert_eq!(odd[0].holder.as_ref().unwrap().name.as_deref(), Some("many"));
    assert!(odd[0].remaining.unwrap() > Duration::from_secs(500));
    // Slower commands block all clients.
    let stats = servers[0].cli(&["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_scan:") && !stats.contains("cmdstat_keys:"), "{stats}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_keeps_the_last_thousand_lines() {
    let servers = [RedisServer::start()];
    let fill = "for i = 0, 1004 do redis.call('ZADD', KEYS[1], i, i .. ' old') end";
    servers[0].cli(&["EVAL", fill, "1", AUDIT]);
    let (_lease, operator, views) = stuck(&servers).await;
    assert_eq!(operator.force(&views).await, 1);
    assert_eq!(servers[0].cli(&["ZCARD", AUDIT]), "1000");
    let last = servers[0].cli(&["ZRANGE", AUDIT, "-1", "-1"]);
    assert!(last.contains("release invoice/42"), "{last}");
}

/// Two nodes hold the lock and are away, and two hold nothing: with those, a majority would set it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_hold_nothing_do_not_bring_it_back() {
    let servers = five();
    let (lease, ..) = stuck(&servers).await;
    for server in &servers[3..] {
        server.cli(&["DEL", LOCK]);
        server.cli(&["HDEL", MEMORY, COUNT]);
    }
    let operator = Operator::of(&servers);
    let views = operator.seen().await;
    for node in &operator.nodes[2..] {
        operator.force_on(node, &views).await.unwrap();
    }
    // A renewal that was not answered in time says nothing.
    until("it is lost", async || matches!(lease.renew().await.unwrap_err(), RenewError::Lost(_))).await;
    assert_eq!(lease.lost().await, Loss::Superseded);
}

/// The largest token counts, also where the lock is free, or the holder sets it again on a majority.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_token_of_all_is_used_up() {
    let servers = five();
    let (lease, ..) = stuck(&servers).await;
    let count = lease.token().get() % 1_000_000;
    // The first node knows of a smaller one, the second has it and no lock, and the last has neither.
    let memory = |server: &RedisServer, change: &[&str]| {
        server.cli(&[&[change[0], MEMORY, COUNT], &change[1..]].concat());
    };
    for server in &servers[..3] {
        memory(server, &["HSET", &(count + 6).to_string()]);
    }
    memory(&servers[0], &["HSET", &(count + 3).to_string()]);
    for server in &servers[3..] {
        memory(server, &["HDEL"]);
    }
    for server in [&servers[1], &servers[3], &servers[4]] {
        server.cli(&["DEL", LOCK]);
    }
    let mut operator = Operator::of(&servers);
    operator.nodes.drain(2..4);
    let views = operator.seen().await;
    operator.force(&views).await;
    for server in [&servers[0], &servers[1], &servers[4]] {
        let left = server.cli(&["HGET", MEMORY, COUNT]);
        assert_eq!(left, (count + 7).to_string());
    }
    assert!(lease.renew().await.is_err());
}

/// Where there is no larger token nothing could keep the holder out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_token_of_an_era_cannot_be_taken_away() {
    let servers = [RedisServer::start()];
    let lease = client(&servers, "stuck").acquire(&resource()).await.unwrap();
    servers[0].cli(&["HSET", MEMORY, COUNT, "999999"]);
    let operator = Operator::of(&servers);
    let views = operator.seen().await;
    assert_eq!(operator.force_on(&operator.nodes[0], &views).await, Err(Fault::Exhausted));
    lease.renew().await.unwrap();
}

/// What a node of another fleet, or of none, knows raises no era, and its own is not raised.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_not_admitted_is_left_alone() {
    let servers = five();
    let (lease, operator, views) = stuck(&servers).await;
    let admitted = servers[0].cli(&["HGET", MEMORY, "admitted"]);
    for marker in [admitted.replacen(' ', "0 ", 1), format!("{admitted},x")] {
        servers[0].cli(&["HSET", MEMORY, "admitted", &marker]);
        let before = servers[0].cli(&["HGETALL", MEMORY]);
        let node = &operator.nodes[0];
        assert_eq!(operator.sees(node).await, Err(Fault::NotAdmitted));
        let forced = operator.force_on(node, &views).await;
        assert!(matches!(forced, Err(Fault::NotAdmitted | Fault::OtherFleet { .. })), "{forced:?}");
        assert_eq!(servers[0].cli(&["HGETALL", MEMORY]), before);
        assert_eq!(servers[0].cli(&["EXISTS", LOCK]), "1");
    }
    drop(lease);
}

/// Parts of a shared lock that have ended stand on the node until somebody asks for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_are_counted_and_those_that_have_ended_are_not() {
    let servers = [RedisServer::start()];
    let part = client(&servers, "a").acquire_shared(&resource()).await.unwrap();
    let key = LOCK;
    servers[0].cli(&["DEL", key]);
    let time = servers[0].cli(&["TIME"]);
    let now: u64 = time.lines().next().unwrap().parse::<u64>().unwrap() * 1000;
    for number in 0..150 {
        let ends = if number < 30 { now - 1000 } else { now + 600_000 + number };
        servers[0].cli(&["ZADD", key, &ends.to_string(), &format!("owner-{number:03}")]);
    }
    servers[0].cli(&["ZADD", key, &(now + 900_000).to_string(), "draining"]);
    servers[0].cli(&["PEXPIRE", key, "900000"]);
    let operator = Operator::of(&servers);
    let listed = operator.nodes[0].locks(|_| true, BUDGET).await.unwrap();
    assert_eq!(listed.len(), 100);
    assert!(listed.iter().all(|lock| lock.shared && lock.holders == 120), "{listed:?}");
    let views = operator.seen().await;
    let owners: Vec<&[u8]> = views[0].locks.iter().map(|lock| &lock.value[..]).collect();
    assert_eq!(owners.len(), 120);
    assert!(!owners.contains(&&b"draining"[..]) && !owners.contains(&&b"owner-029"[..]));
    // All 120 lose it; the pause for a client that waits to hold it alone goes on. No part is set again.
    assert_eq!(operator.force(&views).await, 120);
    assert!(part.renew().await.is_err());
    assert_eq!(servers[0].cli(&["ZRANGE", key, "0", "-1"]), "draining");
    let line = servers[0].cli(&["ZRANGE", AUDIT, "0", "-1"]);
    assert!(line.contains("and 104 more; done by ") && line.len() < 16 * 140, "{line}");
}

/// That holder may have asked with the same count, and has to publish its token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_another_holds_it_nothing_is_noted() {
    let servers = five();
    let (lease, operator, views) = stuck(&servers).await;
    let values = [views[0].locks[0].value.clone()];
    servers[0].cli(&["SET", LOCK, "another"]);
    // What stands in the way of a line of the audit does not stand in the way of the release.
    servers[1].cli(&["SET", AUDIT, "x"]);
    servers[2].cli(&["DEL", LOCK]);
    let mut forced = Vec::new();
    let count = servers[0].cli(&["HGET", MEMORY, COUNT]);
    for node in &operator.nodes[..3] {
        forced.push(operator.force_on(node, &views).await);
        // What was seen of one resource says nothing of another.
        let (fleet, other) = (&operator.fleet, named("invoice/43"));
        let refused = node.force_release(fleet, &other, &values, &views, BUDGET).await;
        assert_eq!(refused, Err(Fault::NotAdmitted));
    }
    assert_eq!(forced, [Ok(Forced::HeldByAnother), Ok(Forced::Taken(1)), Ok(Forced::Free)]);
    assert_eq!(servers[0].cli(&["HGET", MEMORY, COUNT]), count);
    assert_eq!(servers[0].cli(&["GET", LOCK]), "another");
    assert_eq!(servers[0].cli(&["EXISTS", AUDIT]), "0");
    drop(lease);
}
