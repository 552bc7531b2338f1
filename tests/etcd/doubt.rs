//! Requests whose answers are lost, or that take effect late.

use fencing::Lease;

use super::*;

pub fn is_there(cluster: &EtcdCluster, key: &str) -> bool {
    !cluster.ctl(&["get", "--prefix", key]).is_empty()
}

#[tokio::test]
async fn a_late_transaction_has_no_effect_after_the_sweep() {
    let cluster = EtcdCluster::start();
    let (proxy, one) = beside(&cluster).await;
    // No renewal is due while requests are held.
    let one = one.ttl(Duration::from_secs(30)).budget(Duration::from_secs(8)).build().unwrap();
    let kept = one.acquire(&named("kept")).await.unwrap();
    proxy.set(Mode::Hold);
    let cut = async {
        until("both are held", async || proxy.holds(&["invoice/42", "shared"])).await;
        proxy.set(Mode::Lose);
    };
    let (x, y) = (resource(), named("shared"));
    let (lost, (shared, ())) = join(one.try_acquire(&x), join(one.try_acquire_shared(&y), cut)).await;
    assert!(lost.is_err() && shared.is_err(), "{lost:?} {shared:?}");
    // The sweep goes another way.
    in_time(one.settle()).await;
    proxy.deliver().await;
    sleep(Duration::from_millis(500)).await;
    assert!(!is_there(&cluster, "fencing/l/invoice/42") && !is_there(&cluster, "fencing/l/shared"));
    // The session goes on: its lease as well.
    until("it is renewed", async || kept.renew().await.is_ok()).await;
    release(one.acquire(&x).await.unwrap()).await;
}

#[tokio::test]
async fn a_late_sweep_deletes_no_lock_that_has_come_back() {
    let cluster = EtcdCluster::start();
    let proxy = Proxy::before(cluster.host(0)).await;
    let (ttl, budget) = (Duration::from_secs(20), Duration::from_secs(5));
    let slow = EtcdLock::builder(format!("etcd://{}", proxy.host)).holder("billing-7").ttl(ttl).budget(budget);
    let slow = slow.renew(false).build().unwrap();
    let kept = slow.acquire(&named("kept")).await.unwrap();
    let one = lock(&cluster).ttl(ttl).budget(budget).renew(false).build().unwrap();
    let lease = one.acquire(&resource()).await.unwrap();
    let ticket = lease.ticket().unwrap();
    until("it is moved", async || slow.resume(&ticket).await.map(Lease::leave).is_ok()).await;
    until("it is moved back", async || lease.renew().await.is_ok()).await;
    proxy.set(Mode::HoldFrom("invoice/42"));
    until("it is swept", async || {
        sleep(ttl / 100).await;
        let _ = lease.renew().await;
        proxy.holds(&["invoice/42"])
    })
    .await;
    in_time(slow.settle()).await;
    until("it is moved again", async || slow.resume(&ticket).await.map(Lease::leave).is_ok()).await;
    proxy.deliver().await;
    sleep(Duration::from_millis(500)).await;
    assert!(is_there(&cluster, "fencing/l/invoice/42"));
    drop((kept, lease));
}

#[tokio::test]
async fn a_grant_whose_answer_is_lost_is_swept() {
    let cluster = EtcdCluster::start();
    let budget = Duration::from_millis(500);
    let one = lock(&cluster).ttl(Duration::from_secs(60)).budget(budget).build().unwrap();
    let other = lock(&cluster).build().unwrap();
    // It keeps the session: the lock would be held for ever.
    let kept = one.acquire(&named("kept")).await.unwrap();
    cluster.signal(0, "STOP");
    let lost = one.try_acquire(&resource()).await;
    cluster.signal(0, "CONT");
    assert!(lost.is_err());
    until("the lock is free", async || other.try_acquire(&resource()).await.is_ok()).await;
    assert!(!kept.valid_for().is_zero());
}
