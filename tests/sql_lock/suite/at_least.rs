use super::*;

/// The name of the row's owner.
async fn owner(place: &Place) -> String {
    let owner = sqlx::query_scalar::<_, Vec<u8>>(words::OWNER).fetch_one(&place.pool).await;
    String::from_utf8(owner.unwrap()).unwrap()
}

#[tokio::test]
async fn a_lease_that_is_released_early_leaves_the_row_closed() {
    let place = ready().await;
    let least = builder(&place.pool).lock_at_least_for(LONG / 2).build().unwrap();
    for dropped in [false, true] {
        let lease = least.acquire(&resource()).await.unwrap();
        let holder = owner(&place).await;
        let token = lease.token();
        if dropped {
            drop(lease);
            least.settle().await;
        } else {
            assert_eq!(lease.release().await, Ok(Released::Released));
        }
        let left = held(service(&place.other()).try_acquire(&resource()).await);
        assert!(left > LONG / 4 && left <= LONG / 2, "{left:?}");
        // A renewal that is still on its way does not find the row.
        assert_eq!(owner(&place).await, format!("{holder}."));
        run(&place, words::EXPIRE).await;
        let next = service(&place.pool).try_acquire(&resource()).await.unwrap();
        assert!(next.token() > token);
        assert_eq!(next.release().await, Ok(Released::Released));
    }
}

#[tokio::test]
async fn a_lease_that_was_followed_shortens_nothing() {
    let place = ready().await;
    let least = builder(&place.pool).lock_at_least_for(LONG / 2).build().unwrap();
    let lease = least.acquire(&resource()).await.unwrap();
    run(&place, words::EXPIRE).await;
    let next = service(&place.other()).try_acquire(&resource()).await.unwrap();
    assert_eq!(lease.release().await, Ok(Released::Lapsed));
    assert!(held(service(&place.pool).try_acquire(&resource()).await) > LONG / 2);
    assert_eq!(next.release().await, Ok(Released::Released));
}
