//! Lines of waiting clients, and locks that stay closed for a time.

use std::time::Duration;

use fencing::lock::Loss;
use support::etcd::EtcdCluster;
use support::lease::{assert_held, named, release, resource};
use support::waiting::{in_time, until};
use tokio::time::{Instant, timeout};

use crate::doubt::is_there;
use crate::lock;
use crate::proxy::Proxy;

/// Each waits for the one ahead of it: with polls a minute apart, only the line is this fast.
#[tokio::test]
async fn waiting_clients_come_in_their_order() {
    let cluster = EtcdCluster::start();
    let held = lock(&cluster).build().unwrap().acquire(&resource()).await.unwrap();
    let slow = || lock(&cluster).retry_delay(Duration::from_secs(60)).wait(Duration::from_secs(80));
    let mut waiting = Vec::new();
    for number in 1..=3 {
        let lock = slow().build().unwrap();
        waiting.push(tokio::spawn(async move {
            let lease = lock.acquire(&resource()).await.unwrap();
            let token = lease.token();
            release(lease).await;
            token
        }));
        let places = || cluster.ctl(&["get", "--prefix", "fencing/q/", "--keys-only"]);
        until("it has a place", async || places().split_whitespace().count() == number).await;
    }
    let mut last = held.token();
    release(held).await;
    for waiter in waiting {
        let token = in_time(waiter).await.unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
    }
    until("all have left", async || !is_there(&cluster, "fencing/q/")).await;
}

#[tokio::test]
async fn a_place_that_is_taken_late_is_taken_back() {
    let cluster = EtcdCluster::start();
    let proxy = Proxy::before(cluster.host(0)).await;
    let url = format!("etcd://{},{}", proxy.host, cluster.host(0));
    let budget = Duration::from_millis(800);
    let one = fencing::lock::etcd::EtcdLock::builder(url).budget(budget).build().unwrap();
    // It keeps the session, and with it every place.
    let kept = one.acquire(&named("kept")).await.unwrap();
    let held = lock(&cluster).build().unwrap().acquire(&resource()).await.unwrap();
    proxy.hold_from("fencing/q/");
    let waits = timeout(budget * 4, one.acquire(&resource())).await;
    assert!(waits.is_err(), "{waits:?}");
    in_time(one.settle()).await;
    proxy.deliver().await;
    until("the place is gone", async || !is_there(&cluster, "fencing/q/")).await;
    // What was delivered has been answered.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!is_there(&cluster, "fencing/q/"));
    release(held).await;
    kept.renew().await.unwrap();
}

#[tokio::test]
async fn a_lost_lease_frees_its_lock_after_the_lock_delay() {
    let cluster = EtcdCluster::start();
    let delay = Duration::from_secs(3);
    let brief = lock(&cluster).ttl(Duration::from_secs(2)).lock_delay(delay).renew(false);
    let (brief, other) = (brief.build().unwrap(), lock(&cluster).build().unwrap());
    for dropped in [false, true] {
        let lease = brief.acquire(&resource()).await.unwrap();
        let (start, valid_for) = (Instant::now(), lease.valid_for());
        assert_eq!(lease.lost().await, Loss::Expired);
        let kept = (!dropped).then_some(lease);
        // A sweep for another one.
        drop(support::waiting::polled(brief.acquire(&named("swept")), 4).await);
        release(in_time(other.acquire(&resource())).await.unwrap()).await;
        assert!(start.elapsed() >= valid_for + delay, "{dropped}: {:?}", start.elapsed());
        drop(kept);
    }
}

/// A job that a process does once, and ends.
#[test]
fn a_lock_stays_closed_after_its_process_and_then_ends() {
    let cluster = EtcdCluster::start();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let job = runtime();
    let least = lock(&cluster).lock_at_least_for(Duration::from_secs(6)).build().unwrap();
    let asked = Instant::now();
    job.block_on(async { release(least.acquire(&resource()).await.unwrap()).await });
    drop((least, job));
    let other = lock(&cluster).build().unwrap();
    runtime().block_on(async {
        let found = other.try_acquire(&resource()).await;
        if asked.elapsed() < Duration::from_secs(6) {
            assert_held(found);
        }
        release(in_time(other.acquire(&resource())).await.unwrap()).await;
        assert!(asked.elapsed() >= Duration::from_millis(5900), "{:?}", asked.elapsed());
    });
}
