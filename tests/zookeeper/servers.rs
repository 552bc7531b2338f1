use super::*;
use support::lease::named as resource;
use zookeeper_client::{Acls, CreateMode};

#[tokio::test]
async fn what_can_not_be_had_is_said_at_once() {
    let server = ZookeeperServer::start();
    let r = resource("r");
    let long = on(&server).ttl(Duration::from_secs(50)).build().unwrap();
    let said = fault(long.try_acquire(&r).await).to_string();
    assert!(said.contains("maxSessionTimeout"), "{said}");

    let nobody = ZookeeperLock::builder("zookeeper://127.0.0.1:1").build().unwrap();
    let asked = Instant::now();
    assert!(matches!(fault(nobody.try_acquire(&r).await), Fault::Unreachable(_)));
    assert!(
        matches!(fault(nobody.acquire(&r).await), Fault::Unreachable(_))
            || asked.elapsed() > Duration::from_secs(20)
    );

    let url = |user: &str| format!("zookeeper://{user}@{}/app/locks", server.address());
    let own = ZookeeperLock::builder(url("me:right")).build().unwrap();
    drop(own.acquire(&r).await.unwrap());
    let wrong = ZookeeperLock::builder(url("me:wrong")).build().unwrap();
    assert!(matches!(fault(wrong.try_acquire(&r).await), Fault::Denied(_)));
    assert!(own.health().await.has_quorum());
}

/// A server that hangs costs a caller its budget, and not each.
#[tokio::test]
async fn a_server_that_hangs_costs_one_budget() {
    let server = ZookeeperServer::start();
    let budget = Duration::from_secs(2);
    let lock = on(&server).budget(budget).build().unwrap();
    let lease = lock.acquire(&resource("r")).await.unwrap();
    server.signal("STOP");
    assert_eq!(fault(lock.try_acquire(&resource("a")).await), Fault::TimedOut);
    let begun = Instant::now();
    for _ in 0..20 {
        assert!(lock.try_acquire(&resource("a")).await.is_err());
    }
    assert!(begun.elapsed() < budget * 10, "{:?}", begun.elapsed());
    assert!(lease.renew().await.is_err());
    server.signal("CONT");
    // What it was asked for meanwhile is not kept.
    until("it answers", async || lock.try_acquire(&resource("a")).await.ok())
        .await
        .release()
        .await
        .unwrap();
}

/// A session that the servers have ended.
#[tokio::test]
async fn a_session_that_has_expired_loses_its_leases_and_is_replaced() {
    let mut server = ZookeeperServer::with("maxSessionTimeout=4000\nminSessionTimeout=1000");
    let lock =
        on(&server).ttl(Duration::from_secs(3)).budget(Duration::from_secs(1)).build().unwrap();
    let lease = lock.acquire(&resource("r")).await.unwrap();
    server.kill();
    lease.lost().await;
    server.restart();
    let next = until("another session", async || lock.try_acquire(&resource("r")).await.ok()).await;
    assert!(next.token() > lease.token());
}

/// Tokens count from the base, which somebody may have taken away: what was given out stays below.
#[tokio::test]
async fn a_base_that_goes_back_is_refused() {
    let server = ZookeeperServer::start();
    let (hand, lock) = (by_hand(&server).await, on(&server).build().unwrap());
    lock.acquire(&resource("r")).await.unwrap().release().await.unwrap();
    hand.delete("/fencing/base", None).await.unwrap();
    assert!(lock.try_acquire(&resource("r")).await.is_err());
    let all = CreateMode::Persistent.with_acls(Acls::anyone_all());
    hand.create("/fencing/base", b"7", &all).await.unwrap();
    let said = fault(lock.try_acquire(&resource("r")).await).to_string();
    assert!(said.contains("raise"), "{said}");
    // Nothing of it is left.
    assert_eq!(hand.list_children("/fencing/l/r").await.unwrap(), Vec::<String>::new());
}
