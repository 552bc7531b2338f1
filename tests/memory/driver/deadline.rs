//! From when a lease counts: from before its request, with the drift taken off.

use fencing::lock::Lease;

use crate::driver::fleet::*;

const DELAY: Duration = Duration::from_millis(30);

async fn granted_late(fleet: &Fleet, redlock: &Redlock) -> Lease {
    fleet.faults.iter().for_each(|faults| faults.delay_replies(DELAY));
    let before = Instant::now();
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    assert!(before.elapsed() >= DELAY && before.elapsed() < BUDGET, "{:?}", before.elapsed());
    assert_eq!(lease.valid_for(), TTL - DRIFT - before.elapsed());
    lease
}

#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_before_its_request() {
    let (fleet, redlock) = Fleet::with_client(3).await;
    granted_late(&fleet, &redlock).await.release().await.unwrap();
}

/// Has nodes 0 and 1 count a lease of which node 2 does not hear, and node 0 be silent then: what 1 and 2 grant has to
/// be published.
async fn out_of_step(fleet: &Fleet, redlock: &Redlock, delay: Duration) {
    fleet.faults[2].refuse(true);
    fleet.faults[2].break_sessions();
    redlock.try_acquire(&resource()).await.unwrap().release().await.unwrap();
    fleet.faults[2].heal();
    // The pause before it connects again is as long as the budget.
    while redlock.health().await.granting < 3 {
        sleep(Duration::from_secs(1)).await;
    }
    fleet.faults[0].hang();
    fleet.faults[1..].iter().for_each(|faults| faults.delay_replies(delay));
}

/// The counts differ, so that a publish follows: it takes off as much again.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_published_counts_from_before_its_first_request() {
    let (fleet, redlock) = Fleet::with_client(3).await;
    out_of_step(&fleet, &redlock, DELAY).await;
    let before = Instant::now();
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    assert_eq!(ran(&fleet.faults[2]), ["acquire", "publish"]);
    assert!(before.elapsed() >= DELAY * 2, "{:?}", before.elapsed());
    assert_eq!(lease.valid_for(), TTL - DRIFT - before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_renewed_lease_counts_from_before_its_renewal() {
    let (fleet, redlock) = Fleet::with_client(3).await;
    let lease = granted_late(&fleet, &redlock).await;
    let first = lease.valid_for();
    for renewal in 1..=3 {
        let renewals = || ran(&fleet.faults[0]).iter().filter(|name| **name == "renew").count();
        while renewals() < renewal {
            sleep(Duration::from_millis(1)).await;
        }
        // The node has run it, a tick ago at most; its answer is on the way.
        let after = Instant::now();
        sleep(DELAY + Duration::from_millis(5)).await;
        let (left, most) = (lease.valid_for(), TTL - DRIFT - after.elapsed());
        assert!(left <= most, "renewal {renewal}: {left:?}, not {most:?}");
        assert!(left > most - Duration::from_millis(2) && left > first - DELAY, "{left:?}");
    }
}

/// The nodes are so slow that the lease has less than a third of its TTL left when it comes.
#[tokio::test(start_paused = true)]
async fn a_lease_that_comes_late_is_renewed_all_the_same() {
    let fleet = Fleet::started().await;
    let redlock = fleet.service().node_budget(TTL / 2).build().unwrap();
    redlock.try_acquire(&resource()).await.unwrap().release().await.unwrap();
    out_of_step(&fleet, &redlock, TTL * 2 / 5).await;
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    let left = lease.valid_for();
    assert!(left > Duration::ZERO && left < TTL / 4, "{left:?}");
    fleet.faults[1..].iter().for_each(|faults| faults.delay_replies(Duration::ZERO));
    sleep(TTL * 3).await;
    assert!(lease.valid_for() > TTL / 2, "{:?}", lease.valid_for());
}
