//! `lock_at_least_for`: a lock that is released early stays closed for the rest.

use crate::driver::fleet::*;

const LEAST: Duration = Duration::from_secs(4);

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_released_early_leaves_the_lock_closed() {
    for dropped in [false, true] {
        let fleet = Fleet::started().await;
        let redlock = fleet.service().lock_at_least_for(LEAST).build().unwrap();
        let start = Instant::now();
        let lease = redlock.acquire(&resource()).await.unwrap();
        let lost = lease.lost();
        sleep(LEAST / 4).await;
        match dropped {
            true => drop(lease),
            false => assert_eq!(lease.release().await, Ok(Released::Released)),
        }
        redlock.settle().await;
        // It is over at once, though the lock is not free.
        assert_eq!(lost.await, Loss::Released);
        assert_eq!(start.elapsed(), LEAST / 4);
        fleet.assert_ran(&["acquire", "shorten"]);
        match redlock.try_acquire(&resource()).await {
            Err(AcquireError::Held { retry_after, .. }) => assert_eq!(retry_after, LEAST * 3 / 4),
            other => panic!("{other:?}"),
        }
        sleep(LEAST * 3 / 4).await;
        redlock.try_acquire(&resource()).await.unwrap().release().await.unwrap();
    }
}

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
    let error = redlock.with_lock_at_least_for(longer).unwrap_err();
    assert_eq!(error.setting(), "lock_at_least_for");
    redlock.with_lock_at_least_for(Duration::ZERO).unwrap().with_ttl(TTL / 2).unwrap();
}
