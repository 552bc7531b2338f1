//! `lock_at_least_for`: a lock that is released early stays closed for the rest.

use crate::driver::fleet::*;

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
    let error = redlock.with_lock_at_least_for(longer).unwrap_err();
    assert_eq!(error.setting(), "lock_at_least_for");
    redlock.with_lock_at_least_for(Duration::ZERO).unwrap().with_ttl(TTL / 2).unwrap();
}
