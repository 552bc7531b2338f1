use super::*;
use fencing::Resource;
use fencing::lock::Loss;
use support::lease::named as resource;
use zookeeper_client::{Acls, CreateMode};

/// Another service, another session: they exclude each other by the servers alone.
#[tokio::test]
async fn services_exclude_each_other_and_tokens_grow() {
    let server = ZookeeperServer::start();
    let (one, other) = (on(&server).holder("one").build().unwrap(), on(&server).build().unwrap());
    let mut last = None;
    for round in 0..3 {
        let lease = one.acquire(&resource("a/b")).await.unwrap();
        assert!(Some(lease.token()) > last, "{round}");
        last = Some(lease.token());
        match other.try_acquire(&resource("a/b")).await {
            Err(AcquireError::Held { holder, .. }) => {
                assert_eq!(holder.unwrap().name.as_deref(), Some("one"));
            }
            found => panic!("{found:?}"),
        }
        lease.renew().await.unwrap();
        lease.release().await.unwrap();
        let lease = other.acquire(&resource("a/b")).await.unwrap();
        assert!(Some(lease.token()) > last, "{round}");
        last = Some(lease.token());
        lease.release().await.unwrap();
    }
    // It counts from the clock: above what Redis nodes gave out before.
    assert!(last.unwrap().get() > 28_000_000_000_000, "{last:?}");
}

/// What a release by force removes, a late holder neither renews nor removes again.
#[tokio::test]
async fn a_lock_that_was_removed_is_lost() {
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
}

/// The session outlives a lease that nobody renews; the lock does not.
#[tokio::test]
async fn a_lost_lease_frees_its_lock_after_the_lock_delay() {
    let server = ZookeeperServer::start();
    let delay = Duration::from_secs(3);
    let brief = on(&server).ttl(Duration::from_secs(2)).budget(Duration::from_secs(1));
    let lock = brief.lock_delay(delay).renew(false).build().unwrap();
    let other = on(&server).build().unwrap();
    for dropped in [false, true] {
        let asked = Instant::now();
        let lease = lock.acquire(&resource("r")).await.unwrap();
        lease.lost().await;
        let kept = (!dropped).then_some(lease);
        let found = other.try_acquire(&resource("r")).await;
        assert!(found.is_err() || asked.elapsed() >= Duration::from_secs(5), "{found:?}");
        drop(found);
        other.acquire(&resource("r")).await.unwrap().release().await.unwrap();
        assert!(asked.elapsed() >= Duration::from_secs(5), "{dropped}");
        drop(kept);
    }
}

#[tokio::test]
async fn all_or_none() {
    let server = ZookeeperServer::start();
    let (one, other) = (on(&server).build().unwrap(), on(&server).build().unwrap());
    let many: Vec<Resource> = (0..128).map(|number| resource(&format!("m/{number}"))).collect();
    let held = other.acquire(&many[64]).await.unwrap();
    let brief = one.with_wait(Duration::ZERO).unwrap();
    match brief.acquire_all(&many).await {
        Err(AcquireError::Held { resource, .. }) => assert_eq!(resource, many[64]),
        found => panic!("{found:?}"),
    }
    drop(other.try_acquire(&many[0]).await.unwrap());
    held.release().await.unwrap();
    let all = one.acquire_all(&many).await.unwrap();
    all.renew().await.unwrap();
    assert!(other.try_acquire(&many[127]).await.is_err());
    all.release().await.unwrap();
}

/// A lease that is dropped where no runtime is releases its lock.
#[test]
fn a_lease_is_released_outside_of_a_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = ZookeeperServer::start();
    let (one, other) = (on(&server).build().unwrap(), on(&server).build().unwrap());
    let lease = runtime.block_on(one.acquire(&resource("r"))).unwrap();
    drop(lease);
    drop(runtime.block_on(other.acquire(&resource("r"))).unwrap());
    runtime.block_on(other.settle());
}
