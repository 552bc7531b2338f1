//! Who holds a lock: told to others, listed for operators, and taken away by force.

use std::time::{Duration, SystemTime};

use fencing::lock::redlock::{Fleet, Forced, Node, NodeView, RedisNode};
use fencing::lock::{AcquireError, Fault, Holder, Loss, Released};
use fencing::{Redlock, Resource};
use support::redis::{RedisServer, five};

const BUDGET: Duration = Duration::from_secs(5);

fn named(servers: &[RedisServer], name: &str) -> Redlock {
    let builder = Redlock::builder().first_start(true).redis(servers.iter().map(RedisServer::url));
    let builder = builder.ttl(Duration::from_secs(600)).node_budget(Duration::from_secs(1));
    builder.holder(name).build().unwrap()
}

fn resource() -> Resource {
    Resource::new("invoice/42").unwrap()
}

#[track_caller]
fn holder<L: std::fmt::Debug>(outcome: Result<L, AcquireError>) -> Holder {
    match outcome {
        Err(AcquireError::Held { holder: Some(holder), .. }) => holder,
        other => panic!("nobody is named: {other:?}"),
    }
}

fn nodes(servers: &[RedisServer]) -> Vec<RedisNode> {
    servers.iter().map(|it| RedisNode::new(&it.url(), "fencing").unwrap()).collect()
}

fn fleet(servers: &[RedisServer]) -> Fleet {
    Fleet::new(nodes(servers).iter().map(Node::member)).unwrap()
}

async fn seen(fleet: &Fleet, servers: &[RedisServer]) -> Vec<NodeView> {
    let mut seen = Vec::new();
    for node in nodes(servers) {
        seen.push(node.lock(fleet, &resource(), BUDGET).await.unwrap());
    }
    seen
}

async fn force(fleet: &Fleet, servers: &[RedisServer], seen: &[NodeView]) -> usize {
    let mut values: Vec<_> = seen.iter().flat_map(|view| &view.locks).collect();
    values.dedup_by_key(|lock| lock.value.clone());
    let values: Vec<_> = values.into_iter().map(|lock| lock.value.clone()).collect();
    let mut taken = 0;
    for node in nodes(servers) {
        if let Forced::Taken(holders) =
            node.force_release(fleet, &resource(), &values, seen, BUDGET).await.unwrap()
        {
            taken += holders;
        }
    }
    taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_error_names_the_holder() {
    let servers = five();
    let (a, b) = (named(&servers, "billing-7"), named(&servers, "billing-8"));
    let before = SystemTime::now() - Duration::from_secs(1);
    let lease = a.acquire(&resource()).await.unwrap();
    for outcome in
        [b.try_acquire(&resource()).await.map(drop), a.try_acquire(&resource()).await.map(drop)]
    {
        let text = outcome.as_ref().unwrap_err().to_string();
        let found = holder(outcome);
        assert_eq!(found.name.as_deref(), Some("billing-7"));
        assert!(found.since.is_some_and(|at| at > before && at <= SystemTime::now()), "{found:?}");
        assert!(text.contains("is held by another client, billing-7 since 20"), "{text}");
    }
    assert_eq!(holder(b.try_acquire_shared(&resource()).await).name.as_deref(), Some("billing-7"));
    let several = ["a", "invoice/42"].map(|name| Resource::new(name).unwrap());
    let b_soon = b.with_wait(Duration::ZERO).unwrap();
    assert_eq!(holder(b_soon.acquire_all(&several).await).name.as_deref(), Some("billing-7"));
    // The scripts compare the whole of what they have written.
    lease.renew().await.unwrap();
    assert_eq!(lease.release().await, Ok(Released::Released));
    let part = b.acquire_shared(&resource()).await.unwrap();
    part.renew().await.unwrap();
    assert_eq!(holder(a.try_acquire(&resource()).await).name.as_deref(), Some("billing-8"));
    assert_eq!(part.release().await, Ok(Released::Released));
    let all = b.acquire_all(&several).await.unwrap();
    all.renew().await.unwrap();
    assert_eq!(holder(a.try_acquire(&several[0]).await).name.as_deref(), Some("billing-8"));
    assert_eq!(all.release().await, Ok(Released::Released));
    drop(a.try_acquire(&resource()).await.unwrap());
}

#[test]
fn a_name_that_cannot_be_is_refused() {
    for name in ["", "a b", "a.", "\u{e4}", "a\"b"] {
        let wrong = Redlock::builder().redis(["redis://a"]).holder(name).build().unwrap_err();
        assert_eq!(wrong.setting(), "holder", "{name:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_are_listed_in_small_steps() {
    let servers = [RedisServer::start()];
    let lock = named(&servers, "many");
    let mut leases = Vec::new();
    for number in 0..500 {
        let resource = Resource::new(format!("list/{number}")).unwrap();
        leases.push(lock.acquire(&resource).await.unwrap());
    }
    // Keys of others, of another namespace, and one that no client has made.
    for key in ["other", "{fencin*}:lock:x", "{fencing}2:lock:y"] {
        servers[0].cli(&["SET", key, "x"]);
    }
    servers[0].cli(&["SET", "{fencing}:lock:by hand", "x"]);
    let node = RedisNode::new(&servers[0].url(), "fencing").unwrap();
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
async fn a_lock_that_was_taken_away_is_not_renewed() {
    let servers = five();
    let (a, b) = (named(&servers, "stuck"), named(&servers, "next"));
    let lease = a.acquire(&resource()).await.unwrap();
    let token = lease.token();
    let views = seen(&fleet(&servers), &servers).await;
    assert!(force(&fleet(&servers), &servers, &views).await >= 3);
    // Nobody else has come: without the count it would be set again.
    assert!(lease.renew().await.is_err());
    assert_eq!(lease.lost().await, Loss::Superseded);
    let next = b.try_acquire(&resource()).await.unwrap();
    assert!(next.token() > token);
    let lines = servers[0].cli(&["ZRANGE", "{fencing}:audit", "0", "-1"]);
    assert!(
        lines.contains("release invoice/42; held by ") && lines.contains(" stuck; done by "),
        "{lines}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_came_since_keeps_the_lock() {
    let servers = five();
    let (a, b) = (named(&servers, "old"), named(&servers, "new"));
    let old = a.acquire(&resource()).await.unwrap();
    let views = seen(&fleet(&servers), &servers).await;
    assert_eq!(old.release().await, Ok(Released::Released));
    let new = b.acquire(&resource()).await.unwrap();
    assert_eq!(force(&fleet(&servers), &servers, &views).await, 0);
    new.renew().await.unwrap();
    assert_eq!(holder(a.try_acquire(&resource()).await).name.as_deref(), Some("new"));
    assert_eq!(servers[0].cli(&["EXISTS", "{fencing}:audit"]), "0");
    assert_eq!(new.release().await, Ok(Released::Released));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_share_a_lock_lose_it() {
    let servers = five();
    let (a, b, c) = (named(&servers, "a"), named(&servers, "b"), named(&servers, "c"));
    let parts = [
        a.acquire_shared(&resource()).await.unwrap(),
        b.acquire_shared(&resource()).await.unwrap(),
    ];
    let views = seen(&fleet(&servers), &servers).await;
    assert!(views.iter().flat_map(|view| &view.locks).all(|lock| lock.shared), "{views:?}");
    assert!(force(&fleet(&servers), &servers, &views).await >= 6);
    for part in &parts {
        assert!(part.renew().await.is_err());
    }
    let next = c.try_acquire(&resource()).await.unwrap();
    assert!(parts.iter().all(|part| part.token() < next.token()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_keeps_the_last_thousand_lines() {
    let servers = [RedisServer::start()];
    for number in 0..1005 {
        servers[0].cli(&["ZADD", "{fencing}:audit", &number.to_string(), &format!("{number} old")]);
    }
    let lease = named(&servers, "a").acquire(&resource()).await.unwrap();
    let views = seen(&fleet(&servers), &servers).await;
    assert_eq!(force(&fleet(&servers), &servers, &views).await, 1);
    drop(lease);
    assert_eq!(servers[0].cli(&["ZCARD", "{fencing}:audit"]), "1000");
    let last = servers[0].cli(&["ZRANGE", "{fencing}:audit", "-1", "-1"]);
    assert!(last.contains("release invoice/42"), "{last}");
}

/// Two nodes hold the lock and are away, and two hold nothing: with those, a majority would set it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_hold_nothing_do_not_bring_it_back() {
    let servers = five();
    let lease = named(&servers, "stuck").acquire(&resource()).await.unwrap();
    for server in &servers[3..] {
        server.cli(&["DEL", "{fencing}:lock:invoice/42"]);
        server.cli(&["HDEL", "{fencing}:memory", "c:invoice/42"]);
    }
    let views = seen(&fleet(&servers), &servers).await;
    force(&fleet(&servers), &servers[2..], &views).await;
    assert!(lease.renew().await.is_err());
    assert_eq!(lease.lost().await, Loss::Superseded);
}

/// The largest token counts, also where the lock is free, or the holder sets it again on a majority.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_token_of_all_is_used_up() {
    let servers = five();
    let lease = named(&servers, "stuck").acquire(&resource()).await.unwrap();
    // It may come late to some nodes.
    while !servers.iter().all(|it| it.cli(&["EXISTS", "{fencing}:lock:invoice/42"]) == "1") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let count = lease.token().get() % 1_000_000;
    // The first node knows of a smaller one, the second has it and no lock, and the last has neither.
    let memory = |server: &RedisServer, change: &[&str]| {
        server.cli(&[&[change[0], "{fencing}:memory", "c:invoice/42"], &change[1..]].concat());
    };
    for server in &servers[..3] {
        memory(server, &["HSET", &(count + 6).to_string()]);
    }
    memory(&servers[0], &["HSET", &(count + 3).to_string()]);
    for server in &servers[3..] {
        memory(server, &["HDEL"]);
    }
    for server in [&servers[1], &servers[3], &servers[4]] {
        server.cli(&["DEL", "{fencing}:lock:invoice/42"]);
    }
    let reached: Vec<RedisNode> =
        [0, 1, 4].into_iter().map(|place| nodes(&servers).swap_remove(place)).collect();
    let fleet = fleet(&servers);
    let mut views = Vec::new();
    for node in &reached {
        views.push(node.lock(&fleet, &resource(), BUDGET).await.unwrap());
    }
    let values: Vec<_> = views[0].locks.iter().map(|lock| lock.value.clone()).collect();
    for node in &reached {
        node.force_release(&fleet, &resource(), &values, &views, BUDGET).await.unwrap();
    }
    for server in [&servers[0], &servers[1], &servers[4]] {
        let left = server.cli(&["HGET", "{fencing}:memory", "c:invoice/42"]);
        assert_eq!(left, (count + 7).to_string());
    }
    assert!(lease.renew().await.is_err());
}

/// Where there is no larger token nothing could keep the holder out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_token_of_an_era_cannot_be_taken_away() {
    let servers = [RedisServer::start()];
    let lease = named(&servers, "stuck").acquire(&resource()).await.unwrap();
    servers[0].cli(&["HSET", "{fencing}:memory", "c:invoice/42", "999999"]);
    let (fleet, node) = (fleet(&servers), nodes(&servers).remove(0));
    let views = [node.lock(&fleet, &resource(), BUDGET).await.unwrap()];
    let values = [views[0].locks[0].value.clone()];
    let forced = node.force_release(&fleet, &resource(), &values, &views, BUDGET).await;
    assert_eq!(forced, Err(Fault::Exhausted));
    lease.renew().await.unwrap();
}

/// What a node of another fleet, or of none, knows raises no era, and its own is not raised.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_not_admitted_is_left_alone() {
    let servers = five();
    let lease = named(&servers, "stuck").acquire(&resource()).await.unwrap();
    let fleet = fleet(&servers);
    let views = seen(&fleet, &servers).await;
    let values: Vec<_> = views[0].locks.iter().map(|lock| lock.value.clone()).collect();
    let admitted = servers[0].cli(&["HGET", "{fencing}:memory", "admitted"]);
    for marker in [admitted.replacen(' ', "0 ", 1), format!("{admitted},x")] {
        servers[0].cli(&["HSET", "{fencing}:memory", "admitted", &marker]);
        let before = servers[0].cli(&["HGETALL", "{fencing}:memory"]);
        let node = nodes(&servers).remove(0);
        assert_eq!(node.lock(&fleet, &resource(), BUDGET).await, Err(Fault::NotAdmitted));
        let forced = node.force_release(&fleet, &resource(), &values, &views, BUDGET).await;
        assert!(matches!(forced, Err(Fault::NotAdmitted | Fault::OtherFleet { .. })), "{forced:?}");
        assert_eq!(servers[0].cli(&["HGETALL", "{fencing}:memory"]), before);
        assert_eq!(servers[0].cli(&["EXISTS", "{fencing}:lock:invoice/42"]), "1");
    }
    drop(lease);
}

/// Parts of a shared lock that have ended stand on the node until somebody asks for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_are_counted_and_those_that_have_ended_are_not() {
    let servers = [RedisServer::start()];
    drop(named(&servers, "a").acquire_shared(&resource()).await.unwrap());
    let key = "{fencing}:lock:invoice/42";
    servers[0].cli(&["DEL", key]);
    let time = servers[0].cli(&["TIME"]);
    let now: u64 = time.lines().next().unwrap().parse::<u64>().unwrap() * 1000;
    for number in 0..150 {
        let ends = if number < 30 { now - 1000 } else { now + 600_000 + number };
        servers[0].cli(&["ZADD", key, &ends.to_string(), &format!("owner-{number:03}")]);
    }
    servers[0].cli(&["ZADD", key, &(now + 900_000).to_string(), "draining"]);
    servers[0].cli(&["PEXPIRE", key, "900000"]);
    let node = nodes(&servers).remove(0);
    let listed = node.locks(|_| true, BUDGET).await.unwrap();
    assert_eq!(listed.len(), 100);
    assert!(listed.iter().all(|lock| lock.shared && lock.holders == 120), "{listed:?}");
    let views = seen(&fleet(&servers), &servers).await;
    let owners: Vec<&[u8]> = views[0].locks.iter().map(|lock| &lock.value[..]).collect();
    assert_eq!(owners.len(), 120);
    assert!(!owners.contains(&&b"draining"[..]) && !owners.contains(&&b"owner-029"[..]));
    // All 120 lose it; the pause for a client that waits to hold it alone goes on.
    assert_eq!(force(&fleet(&servers), &servers, &views).await, 120);
    assert_eq!(servers[0].cli(&["ZRANGE", key, "0", "-1"]), "draining");
    let line = servers[0].cli(&["ZRANGE", "{fencing}:audit", "0", "-1"]);
    assert!(line.contains("and 104 more; done by ") && line.len() < 16 * 140, "{line}");
}

/// That holder may have asked with the same count, and has to publish its token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_another_holds_it_nothing_is_noted() {
    let servers = five();
    let lease = named(&servers, "stuck").acquire(&resource()).await.unwrap();
    let fleet = fleet(&servers);
    let views = seen(&fleet, &servers).await;
    let values = [views[0].locks[0].value.clone()];
    servers[0].cli(&["SET", "{fencing}:lock:invoice/42", "another"]);
    // What stands in the way of a line of the audit does not stand in the way of the release.
    servers[1].cli(&["SET", "{fencing}:audit", "x"]);
    servers[2].cli(&["DEL", "{fencing}:lock:invoice/42"]);
    let mut forced = Vec::new();
    let count = servers[0].cli(&["HGET", "{fencing}:memory", "c:invoice/42"]);
    for node in nodes(&servers).into_iter().take(3) {
        forced.push(node.force_release(&fleet, &resource(), &values, &views, BUDGET).await);
        // What was seen of one resource says nothing of another.
        let other = Resource::new("invoice/43").unwrap();
        let refused = node.force_release(&fleet, &other, &values, &views, BUDGET).await;
        assert_eq!(refused, Err(Fault::NotAdmitted));
    }
    assert_eq!(forced, [Ok(Forced::HeldByAnother), Ok(Forced::Taken(1)), Ok(Forced::Free)]);
    assert_eq!(servers[0].cli(&["HGET", "{fencing}:memory", "c:invoice/42"]), count);
    assert_eq!(servers[0].cli(&["GET", "{fencing}:lock:invoice/42"]), "another");
    drop(lease);
}
