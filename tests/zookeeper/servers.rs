use super::*;
use fencing::lock::{ConnectError, Loss, connect};
use support::clock::FaultyClock;
use support::lease::named as resource;
use zookeeper_client::{Acls, CreateMode};

#[tokio::test]
async fn what_can_not_be_had_is_said_at_once() {
    let server = ZookeeperServer::start();
    let r = resource("r");
    let long = on(&server).ttl(Duration::from_secs(31)).build().unwrap();
    // It does not wait for what no wait changes.
    match fault(long.acquire(&r).await) {
        Fault::Denied(said) => assert!(said.contains("maxSessionTimeout"), "{said}"),
        other => panic!("{other:?}"),
    }

    let budget = Duration::from_secs(5);
    let nobody = ZookeeperLock::builder("zookeeper://127.0.0.1:1").budget(budget).build().unwrap();
    let asked = Instant::now();
    assert!(matches!(fault(nobody.try_acquire(&r).await), Fault::Unreachable(_)));
    assert!(
        matches!(fault(nobody.acquire(&r).await), Fault::Unreachable(_)) || asked.elapsed() > Duration::from_secs(20)
    );

    let url = |user: &str| format!("zookeeper://{user}@{}/app/locks", server.address());
    let own = ZookeeperLock::builder(url("me:right")).budget(budget).build().unwrap();
    drop(own.acquire(&r).await.unwrap());
    let wrong = ZookeeperLock::builder(url("me:wrong")).budget(budget).build().unwrap();
    assert!(matches!(fault(wrong.try_acquire(&r).await), Fault::Denied(_)));
    assert!(own.health().await.has_quorum());

    let malformed = connect("zookeeper://a:b").await.unwrap_err();
    assert!(matches!(malformed, ConnectError::Url { .. }), "{malformed:?}");
}

#[tokio::test]
async fn a_server_that_hangs_costs_one_budget() {
    let server = ZookeeperServer::start();
    let lock = on(&server).budget(Duration::from_secs(2)).build().unwrap();
    let lease = lock.acquire(&resource("r")).await.unwrap();
    server.signal("STOP");
    for _ in 0..20 {
        assert_eq!(fault(lock.try_acquire(&resource("a")).await), Fault::TimedOut);
    }
    assert!(lease.renew().await.is_err());
    server.signal("CONT");
    let mut asked = 1;
    let next = until("it answers", async || {
        asked += 1;
        lock.try_acquire(&resource("a")).await.ok()
    });
    // What it was asked for meanwhile is not kept.
    next.await.release().await.unwrap();
    let folder = by_hand(&server).await.check_stat("/fencing/l/a").await.unwrap().unwrap();
    assert!(folder.cversion <= 2 * asked, "{folder:?} of {asked}");
}

/// A session that nobody uses ends: each TTL has one.
#[tokio::test]
async fn sessions_that_are_not_used_end() {
    let server = ZookeeperServer::with("minSessionTimeout=1000");
    let (hand, ttl) = (by_hand(&server).await, Duration::from_secs(14));
    let lock = on(&server).ttl(ttl).budget(ttl / 2).build().unwrap();
    let with = |more| lock.with_ttl(ttl + Duration::from_millis(more)).unwrap();
    let held = with(0).acquire(&resource("held")).await.unwrap();
    for more in 1..5 {
        with(more).acquire(&resource("r")).await.unwrap().release().await.unwrap();
    }
    assert_eq!(hand.list_children("/fencing/s").await.unwrap().len(), 5);
    sleep(ttl * 2).await;
    drop(until("another session", async || with(5).try_acquire(&resource("r")).await.ok()).await);
    until("two are left", async || (hand.list_children("/fencing/s").await.unwrap().len() == 2).then_some(())).await;
    assert!(hand.check_stat("/fencing/l/held/x").await.unwrap().is_some());
    drop(held);
}

#[tokio::test]
async fn a_panic_in_the_tasks_of_a_session_ends_no_lease_and_keeps_no_lock() {
    let server = ZookeeperServer::with("minSessionTimeout=1000");
    let (clock, ttl) = (FaultyClock::default(), Duration::from_secs(12));
    let one = on(&server).ttl(ttl).budget(ttl / 2).renew(false).clock(clock.clone()).build().unwrap();
    let lapses = one.acquire(&resource("r")).await.unwrap();
    for _ in 0..2 {
        clock.fails_at(1);
        let _ = lapses.renew().await;
        until("it has failed", async || clock.has_failed().then_some(())).await;
        until("it is renewed", async || lapses.renew().await.ok()).await;
    }
    let other = on(&server).build().unwrap();
    until("it is free", async || other.try_acquire(&resource("r")).await.ok()).await.release().await.unwrap();
}

/// What a release by force removes, a late holder neither renews nor removes again. An operator who raises the tokens
/// removes the nodes of all sessions.
#[tokio::test]
async fn a_lock_that_was_removed_is_lost_and_a_session_whose_node_is_gone_takes_no_locks() {
    let server = ZookeeperServer::start();
    let (hand, lock) = (by_hand(&server).await, on(&server).build().unwrap());
    let lease = lock.acquire(&resource("r")).await.unwrap();
    hand.delete("/fencing/l/r/x", None).await.unwrap();
    hand.create("/fencing/l/r/x", b"", &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await.unwrap();
    assert!(lease.renew().await.is_err());
    assert_eq!(lease.lost().await, Loss::Superseded);
    // It is another's: neither dropped nor settled does the lease remove it.
    drop(lease);
    lock.settle().await;
    assert!(hand.check_stat("/fencing/l/r/x").await.unwrap().is_some());

    lock.acquire(&resource("s")).await.unwrap().release().await.unwrap();
    for node in hand.list_children("/fencing/s").await.unwrap() {
        hand.delete(&format!("/fencing/s/{node}"), None).await.unwrap();
    }
    lock.acquire(&resource("s")).await.unwrap().renew().await.unwrap();
}

#[tokio::test]
async fn a_session_that_has_expired_loses_its_leases_and_is_replaced() {
    let mut server = ZookeeperServer::with("maxSessionTimeout=12000\nminSessionTimeout=1000");
    let lock = on(&server).ttl(Duration::from_secs(9)).budget(Duration::from_secs(4)).build().unwrap();
    let lease = lock.acquire(&resource("r")).await.unwrap();
    server.kill();
    lease.lost().await;
    server.restart();
    let next = until("another session", async || lock.try_acquire(&resource("r")).await.ok()).await;
    assert!(next.token() > lease.token());
}

#[tokio::test]
async fn an_attempt_to_hold_what_others_share_leaves_no_mark_and_a_base_that_goes_back_is_refused() {
    let server = ZookeeperServer::start();
    let (hand, lock) = (by_hand(&server).await, on(&server).build().unwrap());
    // A mark would change the version: each sharer's release would have to find out why.
    let (other, s) = (on(&server).build().unwrap(), resource("s"));
    let _parts = [lock.acquire_shared(&s).await.unwrap(), other.acquire_shared(&s).await.unwrap()];
    let version = async || hand.check_stat("/fencing/l/s").await.unwrap().unwrap().version;
    let before = version().await;
    assert!(other.try_acquire(&s).await.is_err());
    assert_eq!(version().await, before);

    // Tokens count from the base, which somebody may have taken away: what was given out stays below.
    let lease = lock.acquire(&resource("r")).await.unwrap();
    // It counts from the clock: above what Redis nodes gave out before.
    assert!(lease.token().get() > 28_000_000_000_000, "{lease:?}");
    lease.release().await.unwrap();
    hand.delete("/fencing/base", None).await.unwrap();
    assert!(lock.try_acquire(&resource("r")).await.is_err());
    hand.create("/fencing/base", b"7", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    let said = fault(lock.try_acquire(&resource("r")).await).to_string();
    assert!(said.contains("raise"), "{said}");
    assert!(!lock.health().await.has_quorum());
    // Nothing of it is left.
    assert_eq!(hand.list_children("/fencing/l/r").await.unwrap(), Vec::<String>::new());
}

fn on_all(servers: &[ZookeeperServer]) -> ZookeeperLockBuilder {
    let servers: Vec<_> = servers.iter().map(ZookeeperServer::address).collect();
    let url = format!("zookeeper://{}", servers.join(","));
    ZookeeperLock::builder(url).budget(Duration::from_secs(10)).ttl(Duration::from_secs(60))
}

#[tokio::test]
async fn leases_outlast_a_member_and_without_a_majority_nothing_is_renewed() {
    let mut servers = ZookeeperServer::three_with("maxSessionTimeout=120000\n");
    let lock = on_all(&servers).build().unwrap();
    let lease = until("it grants", async || lock.try_acquire(&resource("r")).await.ok()).await;
    let mut last = lease.token();
    for server in &mut servers {
        server.kill();
        until("it is renewed", async || lease.renew().await.ok()).await;
        let next = until("it grants", async || lock.try_acquire(&resource("a")).await.ok()).await;
        assert!(next.token() > last);
        last = next.token();
        let _ = next.release().await;
        server.restart();
    }
    assert!(!lease.valid_for().is_zero());
    // The only member that this client knows answers its pings.
    let one = on_all(&servers[2..]).build().unwrap();
    let lease = until("it grants", async || one.try_acquire(&resource("c")).await.ok()).await;
    servers.iter().take(2).for_each(|server| server.signal("STOP"));
    assert!(lease.renew().await.is_err());
    assert!(!one.health().await.has_quorum());
    servers.iter().for_each(|server| server.signal("CONT"));
    drop(until("it grants", async || lock.try_acquire(&resource("b")).await.ok()).await);
}
