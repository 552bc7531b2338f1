//! Who waits in the process that releases is woken; who waits elsewhere is not starved by that.

use std::time::Duration;

use fencing::testing::seed;
use fencing::{Lease, Redlock};
use tokio::time::{Instant, sleep};

use crate::driver::fleet::{Fleet, ran, resource, settle};

const RETRY: Duration = Duration::from_millis(100);

async fn waiting(fleet: &Fleet) -> (Redlock, Lease, tokio::task::JoinHandle<Lease>) {
    let redlock = fleet.service().retry_delay(RETRY).build().unwrap();
    let lease = redlock.acquire(&resource()).await.unwrap();
    let next = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.acquire(&resource()).await.unwrap() }
    });
    sleep(RETRY * 10).await;
    (redlock, lease, next)
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_the_next_at_once() {
    let fleet = Fleet::started().await;
    let (_redlock, lease, next) = waiting(&fleet).await;
    let token = lease.token();
    let start = Instant::now();
    lease.release().await.unwrap();
    let next = next.await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(next.token() > token);
}

#[tokio::test(start_paused = true)]
async fn so_does_a_lease_that_is_dropped() {
    let fleet = Fleet::started().await;
    let (_redlock, lease, next) = waiting(&fleet).await;
    let start = Instant::now();
    drop(lease);
    drop(next.await.unwrap());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// All who wait, one after another, without a pause.
#[tokio::test(start_paused = true)]
async fn many_follow_one_another() {
    let fleet = Fleet::started().await;
    let (redlock, lease, next) = waiting(&fleet).await;
    let others = (0..50).map(|_| {
        let redlock = redlock.clone();
        tokio::spawn(async move {
            let lease = redlock.acquire(&resource()).await.unwrap();
            sleep(Duration::from_millis(1)).await;
            lease.release().await.unwrap();
        })
    });
    let others: Vec<_> = others.collect();
    settle().await;
    let asked = ran(&fleet.faults[0]).iter().filter(|name| **name == "acquire").count();
    let start = Instant::now();
    drop(lease);
    drop(next.await.unwrap());
    for other in others {
        other.await.unwrap();
    }
    assert_eq!(start.elapsed(), Duration::from_millis(50));
    // Nobody asks while it is known to be held here.
    let acquires = ran(&fleet.faults[0]).iter().filter(|name| **name == "acquire").count() - asked;
    assert_eq!(acquires, 51);
}

/// A process that always has another waiter does not keep the lock for ever.
#[tokio::test(start_paused = true)]
async fn who_waits_elsewhere_gets_its_turn() {
    seed(Some(1));
    let fleet = Fleet::started().await;
    let redlock = fleet.service().retry_delay(RETRY).build().unwrap();
    let elsewhere = fleet.service().retry_delay(RETRY).wait(RETRY * 100).build().unwrap();
    for _ in 0..4 {
        let redlock = redlock.clone();
        tokio::spawn(async move {
            loop {
                let lease = redlock.acquire(&resource()).await.unwrap();
                sleep(Duration::from_millis(97)).await;
                lease.release().await.unwrap();
            }
        });
    }
    for round in 0..20 {
        let lease = elsewhere.acquire(&resource()).await;
        drop(lease.unwrap_or_else(|error| panic!("round {round}: {error}")));
        sleep(RETRY * 3).await;
    }
    seed(None);
}
