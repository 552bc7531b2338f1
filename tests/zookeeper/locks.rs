use super::*;
use fencing::lock::Loss;
use support::lease::named as resource;
use zookeeper_client::{Acls, CreateMode};

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
