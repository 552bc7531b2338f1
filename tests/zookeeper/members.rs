use super::*;
use support::lease::named as resource;

fn on_all(servers: &[ZookeeperServer]) -> ZookeeperLockBuilder {
    let servers: Vec<_> = servers.iter().map(ZookeeperServer::address).collect();
    let url = format!("zookeeper://{}", servers.join(","));
    ZookeeperLock::builder(url).budget(Duration::from_secs(10)).ttl(Duration::from_secs(60))
}

/// One of three members is killed, and another is stopped and goes on: leases last, and tokens grow.
#[tokio::test]
async fn leases_outlast_a_member() {
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
    let _ = lease.release().await;
}

/// A majority that hangs: nothing is renewed, although the connected member answers pings.
#[tokio::test]
async fn without_a_majority_nothing_is_renewed() {
    let servers = ZookeeperServer::three_with("maxSessionTimeout=120000\n");
    let lock = on_all(&servers).build().unwrap();
    let lease = until("it grants", async || lock.try_acquire(&resource("r")).await.ok()).await;
    servers.iter().take(2).for_each(|server| server.signal("STOP"));
    assert!(lease.renew().await.is_err());
    assert!(!lock.health().await.has_quorum());
    servers.iter().for_each(|server| server.signal("CONT"));
    drop(until("it grants", async || lock.try_acquire(&resource("b")).await.ok()).await);
}
