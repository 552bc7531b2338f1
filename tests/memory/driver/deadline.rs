//! How long a lease counts: from before its request, with the drift taken off. And how long nodes keep its lock beyond
//! that: by the lock-delay where its holder vanished, and for `lock_at_least_for` where it was released early.

use crate::driver::fleet::*;

const DELAY: Duration = Duration::from_millis(30);

/// Makes nodes 0 and 1 count a lease unknown to 2, and 0 silent then: what 1 and 2 grant has to be published.
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
    // The release that it had missed comes first.
    assert_eq!(ran(&fleet.faults[2]), ["release", "acquire", "publish"]);
    assert!(before.elapsed() >= DELAY * 2, "{:?}", before.elapsed());
    assert_eq!(lease.valid_for(), TTL - DRIFT - before.elapsed());
}

/// So does a renewed one, from before its renewal.
#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_before_its_request() {
    let (fleet, redlock) = Fleet::with_client(3).await;
    fleet.faults.iter().for_each(|faults| faults.delay_replies(DELAY));
    let before = Instant::now();
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    assert!(before.elapsed() >= DELAY && before.elapsed() < BUDGET, "{:?}", before.elapsed());
    let first = lease.valid_for();
    assert_eq!(first, TTL - DRIFT - before.elapsed());
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

/// What nodes keep the lock for after a holder that vanished.
const LOCK_DELAY: Duration = Duration::from_secs(60);

/// A renewal may be 40 ms early: those that are due together go together.
const EARLY: Duration = Duration::from_millis(42);

/// Counts from the lease's last renewal, and the holder itself has no more of it than without.
#[tokio::test(start_paused = true)]
async fn a_lock_outlasts_its_lease_by_the_delay() {
    for renewed in [false, true] {
        let fleet = Fleet::started().await;
        let redlock = fleet.service().lock_delay(LOCK_DELAY).renew(renewed).build().unwrap();
        let other = fleet.past_the_faults().wait(LOCK_DELAY * 3).build().unwrap();
        let lease = redlock.try_acquire(&resource()).await.unwrap();
        assert_eq!(lease.valid_for(), TTL - DRIFT);
        let mut rest = TTL + LOCK_DELAY;
        if renewed {
            sleep(TTL / 2).await;
            assert_eq!(ran(&fleet.faults[0]), ["acquire", "renew"]);
            rest -= TTL / 2 - TTL / 3;
            fleet.faults.iter().for_each(Faults::hang);
        }
        let Err(AcquireError::Held { retry_after, .. }) = other.try_acquire(&resource()).await else {
            panic!("it is held")
        };
        assert!(rest.abs_diff(retry_after) <= EARLY, "{retry_after:?}");
        assert!(lease.valid_for() < TTL - DRIFT || !renewed);
        let start = Instant::now();
        lease.lost().await;
        assert!(start.elapsed() < TTL);
        // The holder vanishes: nobody releases.
        std::mem::forget(lease);
        let next = other.acquire(&resource()).await.unwrap();
        assert!(start.elapsed() + EARLY >= rest, "{:?}", start.elapsed());
        next.release().await.unwrap();
    }
}

const LEAST: Duration = Duration::from_secs(4);

/// A lease that lasted for long enough is released as any other, and so is an attempt that is lost.
#[tokio::test(start_paused = true)]
async fn a_lease_that_lasted_for_long_enough_frees_the_lock() {
    let fleet = Fleet::started().await;
    let redlock = fleet.service().lock_at_least_for(LEAST).renew(false).build().unwrap();
    let lease = redlock.acquire(&resource()).await.unwrap();
    sleep(LEAST).await;
    assert_eq!(lease.release().await, Ok(Released::Released));
    assert_eq!(ran(&fleet.faults[0]), ["acquire", "release"]);
    redlock.try_acquire(&resource()).await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn it_is_not_longer_than_the_ttl() {
    let fleet = Fleet::started().await;
    let longer = TTL + Duration::from_millis(1);
    let error = fleet.service().lock_at_least_for(longer).build().unwrap_err();
    assert_eq!(error.setting(), "lock_at_least_for");
    let redlock = fleet.service().lock_at_least_for(TTL).build().unwrap();
    assert_eq!(redlock.with_ttl(TTL / 2).unwrap_err().setting(), "ttl");
    assert_eq!(redlock.with_lock_at_least_for(longer).unwrap_err().setting(), "lock_at_least_for");
    redlock.with_lock_at_least_for(Duration::ZERO).unwrap().with_ttl(TTL / 2).unwrap();
}
