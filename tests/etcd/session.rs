//! The session that all leases of a service share, and its task.

use support::clock::FaultyClock;

use super::*;

#[tokio::test]
async fn leases_are_renewed_while_many_locks_are_swept() {
    let cluster = EtcdCluster::start();
    let (one, other) = (lock(&cluster).build().unwrap(), lock(&cluster).build().unwrap());
    let kept = one.acquire(&named("kept")).await.unwrap();
    let names = |set: usize| (0..127).map(|number| named(&format!("{set}/{number}"))).collect::<Vec<_>>();
    let mut many = Vec::new();
    for sets in (0..160).collect::<Vec<_>>().chunks(16) {
        let acquired = join_all(sets.iter().map(async |set| one.acquire_all(&names(*set)).await.unwrap()));
        many.extend(acquired.await);
    }
    drop(many);
    // The sweep has begun.
    sleep(Duration::from_millis(50)).await;
    kept.renew().await.unwrap();
    assert_held(other.try_acquire(&named("159/126")).await);
    in_time(one.settle()).await;
    release(other.try_acquire(&named("159/126")).await.unwrap()).await;
}

#[tokio::test]
async fn a_caller_that_gives_up_while_the_session_starts_leaves_no_etcd_lease() {
    let cluster = EtcdCluster::start();
    for polls in 1..9 {
        let lock = lock(&cluster).ttl(Duration::from_secs(600)).build().unwrap();
        drop(polled(lock.acquire(&resource()), polls).await);
        in_time(lock.settle()).await;
    }
    let leases = || cluster.ctl(&["lease", "list"]);
    until("no etcd lease is left", async || leases().lines().count() == 1).await;
}

/// The grant is sent to another member, and takes effect twice.
#[tokio::test]
async fn a_grant_whose_answer_is_late_leaves_no_etcd_lease() {
    let cluster = EtcdCluster::start();
    let ((proxy, lock), budget) = (beside(&cluster).await, Duration::from_secs(12));
    let lock = lock.ttl(Duration::from_secs(600)).budget(budget).build().unwrap();
    // It is connected, without a session.
    assert!(lock.health().await.has_quorum());
    proxy.set(Mode::Hold);
    let cut = async {
        sleep(budget / 4).await;
        proxy.set(Mode::Lose);
    };
    let lease = in_time(join(lock.acquire(&resource()), cut)).await.0.unwrap();
    proxy.deliver().await;
    sleep(Duration::from_millis(500)).await;
    until("one etcd lease is left", async || cluster.ctl(&["lease", "list"]).contains("found 1 leases")).await;
    release(lease).await;
}

#[tokio::test]
async fn a_panic_in_the_task_of_a_session_ends_no_lease() {
    let (cluster, clock) = (EtcdCluster::start(), FaultyClock::default());
    let lock = lock(&cluster).clock(clock.clone()).renew(false).build().unwrap();
    let lease = lock.acquire(&resource()).await.unwrap();
    for call in 1..4 {
        clock.fails_at(call);
        let _ = in_time(lease.renew()).await;
        until("it has failed", async || clock.has_failed()).await;
        until("it is renewed", async || lease.renew().await.is_ok()).await;
    }
    assert!(!lease.valid_for().is_zero());
}
