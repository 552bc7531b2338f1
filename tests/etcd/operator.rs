//! What operators do beyond their contract: they raise the tokens of a restored cluster.

use super::*;

#[tokio::test]
async fn asking_while_the_service_is_closed_leaves_nothing() {
    let cluster = EtcdCluster::start();
    cluster.ctl(&["put", "fencing/ttl", "600"]);
    let operator = ConnectOptions::new(cluster.url()).operator().unwrap();
    operator.raise(Token::MIN).await.unwrap();
    let lock = lock(&cluster).ttl(Duration::from_secs(600)).build().unwrap();
    for _ in 0..3 {
        let error = lock.try_acquire(&resource()).await.unwrap_err();
        assert!(matches!(error.causes()[0].cause, Fault::Quarantined(_)), "{error}");
    }
    let leases = || cluster.ctl(&["lease", "list"]);
    until("one etcd lease is left", async || leases().contains("found 1 leases")).await;
}

#[tokio::test]
async fn a_restored_cluster_gives_no_smaller_token_and_after_raise_to_nobody() {
    let mut cluster = EtcdCluster::of(3);
    let old = lock(&cluster).build().unwrap();
    release(old.acquire(&named("before")).await.unwrap()).await;
    let snapshot = cluster.snapshot();
    let mut largest = Token::MIN;
    for _ in 0..30 {
        let lease = old.acquire(&resource()).await.unwrap();
        largest = lease.token();
        release(lease).await;
    }
    let held = old.acquire(&named("held")).await.unwrap();
    cluster.restore(&snapshot);
    // A client that has seen a larger token takes no smaller one.
    let restored = async || match old.try_acquire(&named("another")).await {
        Ok(lease) => panic!("{:?}, after {largest}", lease.token()),
        Err(error) => error.to_string().contains("restored from a backup"),
    };
    until("the client says why", restored).await;
    assert!(!old.health().await.has_quorum());
    let operator = ConnectOptions::new(cluster.url()).operator().unwrap();
    operator.raise(held.token()).await.unwrap();
    let fresh = lock(&cluster).wait(Duration::from_secs(80)).build().unwrap();
    let error = fresh.try_acquire(&resource()).await.unwrap_err();
    assert!(matches!(error.causes()[0].cause, Fault::Quarantined(_)), "{error}");
    let lease = in_time(fresh.acquire(&resource())).await.unwrap();
    assert!(held.valid_for().is_zero(), "the old lease has ended");
    assert!(lease.token() > held.token());
    assert_held(fresh.try_acquire(&resource()).await);
    release(lease).await;
    let lease = in_time(old.acquire(&resource())).await.unwrap();
    assert!(lease.token() > held.token());
    release(lease).await;
}

/// Its members answer, and take no write.
#[tokio::test]
async fn a_cluster_without_space_grants_nothing_and_says_so() {
    let cluster = EtcdCluster::with(1, &["--quota-backend-bytes=400000"]);
    let lock = lock(&cluster).build().unwrap();
    release(lock.acquire(&resource()).await.unwrap()).await;
    assert!(lock.health().await.has_quorum());
    let value = "x".repeat(100_000);
    let health_names_it = async || {
        // The one that finds no space raises the alarm, and fails.
        let _ = cluster.try_ctl(&[0], &["put", &format!("other/{}", fastrand::u64(..)), &value]);
        let health = lock.health().await;
        health.causes.iter().any(|cause| cause.to_string().contains("NOSPACE")) && !health.has_quorum()
    };
    until("the health names the alarm", health_names_it).await;
    lock.try_acquire(&resource()).await.unwrap_err();
}
