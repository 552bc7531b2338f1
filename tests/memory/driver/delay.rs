//! The lock-delay: nodes keep the lock of a holder that vanished for that much longer.

use crate::driver::fleet::*;

const DELAY: Duration = Duration::from_secs(60);

async fn held_for(redlock: &Redlock) -> Duration {
    match redlock.try_acquire(&resource()).await {
        Err(AcquireError::Held { retry_after, .. }) => retry_after,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_outlasts_its_lease_by_the_delay() {
    let fleet = Fleet::started().await;
    let redlock = fleet.service().lock_delay(DELAY).renew(false).build().unwrap();
    let other = fleet.past_the_faults().wait(DELAY * 3).build().unwrap();
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    // The holder has no more of it than without.
    assert_eq!(lease.valid_for(), TTL - DRIFT);
    assert_eq!(held_for(&other).await, TTL + DELAY);
    let start = Instant::now();
    lease.lost().await;
    assert!(start.elapsed() < TTL);
    // The holder vanishes: nobody releases.
    std::mem::forget(lease);
    let next = other.acquire(&resource()).await.unwrap();
    assert!(start.elapsed() >= TTL + DELAY, "{:?}", start.elapsed());
    next.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_renewed_lock_outlasts_its_lease_by_the_delay() {
    let fleet = Fleet::started().await;
    let redlock = fleet.service().lock_delay(DELAY).build().unwrap();
    let other = fleet.past_the_faults().build().unwrap();
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    sleep(TTL / 2).await;
    assert_eq!(ran(&fleet.faults[0]), ["acquire", "renew"]);
    let since_renewal = TTL / 2 - TTL / 3;
    let held = held_for(&other).await;
    let most = TTL + DELAY - since_renewal;
    assert!(held <= most + Duration::from_millis(2), "{held:?}");
    assert!(held >= most - Duration::from_millis(2), "{held:?}");
    assert!(lease.valid_for() < TTL - DRIFT);
}
