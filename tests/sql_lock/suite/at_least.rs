use super::*;

/// The contract of a lock says how long it stays closed.
#[tokio::test]
async fn a_renewal_does_not_find_the_row_of_a_lease_that_was_released_early() {
    let place = ready().await;
    let least = builder(&place.pool).lock_at_least_for(LONG / 2).build().unwrap();
    let lease = least.acquire(&resource()).await.unwrap();
    let holder = owner(&place).await;
    release(lease).await;
    let left = held(service(&place.other()).try_acquire(&resource()).await);
    assert!(left > LONG / 4 && left <= LONG / 2, "{left:?}");
    assert_eq!(owner(&place).await, format!("{holder}."));
    run(&place, words::EXPIRE).await;
    release(service(&place.pool).try_acquire(&resource()).await.unwrap()).await;
}

#[tokio::test]
async fn a_part_that_is_released_early_stays_for_the_rest() {
    let place = ready().await;
    let least = builder(&place.pool).lock_at_least_for(LONG / 2).build().unwrap();
    let other = service(&place.other());
    release(least.acquire_shared(&resource()).await.unwrap()).await;
    for _ in 0..2 {
        let left = held(other.try_acquire(&resource()).await);
        assert!(left > LONG / 4 && left <= LONG / 2, "{left:?}");
        release(other.try_acquire_shared(&resource()).await.unwrap()).await;
    }
}
