use super::*;

#[tokio::test]
async fn a_lease_that_nobody_renews_expires() {
    let place = ready().await;
    let brief = short(&place.pool, Duration::from_secs(2)).renew(false).build().unwrap();
    let lease = brief.acquire(&resource()).await.unwrap();
    // By the database's clock it is over a little later than here.
    let next = service(&place.other()).acquire(&resource()).await.unwrap();
    assert_eq!(lease.valid_for(), Duration::ZERO);
    assert_eq!(lease.lost().await, Loss::Expired);
    assert!(next.token() > lease.token());
    assert_eq!(lease.release().await, Ok(Released::Lapsed));
    // The late release has not hit the next one.
    held(service(&place.other()).try_acquire(&resource()).await);
    assert_eq!(next.release().await, Ok(Released::Released));
}

#[tokio::test]
async fn it_is_kept_while_the_application_uses_every_connection() {
    let place = ready().await;
    let pool = sqlx::pool::PoolOptions::<Db>::new().max_connections(1);
    let pool = pool.connect_lazy_with((*place.pool.connect_options()).clone());
    let lock = short(&pool, Duration::from_secs(6)).build().unwrap();
    let lease = lock.acquire(&resource()).await.unwrap();
    let _busy = pool.acquire().await.unwrap();
    let renewed = async {
        let mut seen = Vec::new();
        while seen.len() < 5 {
            let expires_at = expires_at(&place).await;
            if seen.last().is_none_or(|last| expires_at > *last) {
                seen.push(expires_at);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    lease.run(renewed).await.unwrap();
    assert_eq!(lease.release().await, Ok(Released::Released));
}

#[tokio::test]
async fn a_holder_that_was_followed_is_told_and_releases_nothing() {
    let place = ready().await;
    let lock = short(&place.pool, Duration::from_secs(6)).build().unwrap();
    let first = lock.acquire(&resource()).await.unwrap();
    // The database's clock jumps forward.
    run(&place, words::EXPIRE).await;
    let second = service(&place.other()).acquire(&resource()).await.unwrap();
    assert!(second.token() > first.token());
    let told = tokio::time::timeout(LONG / 2, first.lost()).await;
    assert_eq!(told, Ok(Loss::Superseded), "it renews the lease of another");
    assert_eq!(first.release().await, Ok(Released::Lapsed));
    held(lock.try_acquire(&resource()).await);
    assert_eq!(second.release().await, Ok(Released::Released));
}

#[tokio::test]
async fn who_was_followed_releases_nothing_before_it_knows() {
    let place = ready().await;
    let lock = service(&place.pool);
    let first = lock.acquire(&resource()).await.unwrap();
    run(&place, words::EXPIRE).await;
    let second = lock.acquire(&resource()).await.unwrap();
    assert_eq!(first.release().await, Ok(Released::Lapsed));
    held(lock.try_acquire(&resource()).await);
    assert_eq!(second.release().await, Ok(Released::Released));
}

#[tokio::test]
async fn a_lease_that_expired_in_the_database_alone_is_renewed_if_nobody_came() {
    let place = ready().await;
    let lock = short(&place.pool, Duration::from_secs(6)).build().unwrap();
    let lease = lock.acquire(&resource()).await.unwrap();
    run(&place, words::EXPIRE).await;
    let renewed = async {
        loop {
            let before = expires_at(&place).await;
            let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
            if before > i64::try_from(now.as_millis()).unwrap() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    lease.run(renewed).await.unwrap();
    held(service(&place.other()).try_acquire(&resource()).await);
    assert_eq!(lease.release().await, Ok(Released::Released));
}

#[tokio::test]
async fn a_lease_that_expired_in_the_database_alone_was_not_held_until_its_release() {
    let place = ready().await;
    let lease = service(&place.pool).acquire(&resource()).await.unwrap();
    run(&place, words::EXPIRE).await;
    assert_eq!(lease.release().await, Ok(Released::Lapsed));
    drop(service(&place.other()).try_acquire(&resource()).await.unwrap());
}

#[tokio::test]
async fn an_operator_may_set_it_free() {
    let place = ready().await;
    let lock = short(&place.pool, Duration::from_secs(9)).build().unwrap();
    let first = lock.acquire(&resource()).await.unwrap();
    run(&place, words::FREE).await;
    let told = tokio::time::timeout(LONG / 2, first.lost()).await;
    assert_eq!(told, Ok(Loss::Superseded), "it takes the lease back");
    let second = lock.try_acquire(&resource()).await.unwrap();
    assert!(second.token() > first.token());
}

#[tokio::test]
async fn it_is_held_for_max_hold_at_most() {
    let place = ready().await;
    let ttl = Duration::from_secs(4);
    let lock = short(&place.pool, ttl).max_hold(ttl * 3 / 2).build().unwrap();
    let lease = lock.acquire(&resource()).await.unwrap();
    assert_eq!(lease.lost().await, Loss::MaxHold);
    drop(service(&place.other()).acquire(&resource()).await.unwrap());
}

#[tokio::test]
async fn a_lock_delay_follows_a_holder_that_vanished() {
    let place = ready().await;
    let lock = short(&place.pool, Duration::from_secs(1)).renew(false).lock_delay(LONG);
    let lock = lock.build().unwrap();
    let vanished = lock.acquire(&resource()).await.unwrap();
    assert_eq!(vanished.lost().await, Loss::Expired);
    std::mem::forget(vanished);
    assert!(held(lock.try_acquire(&resource()).await) > LONG / 2);
    // After a release there is none.
    run(&place, words::FREE).await;
    let released = lock.acquire(&resource()).await.unwrap();
    let _ = released.release().await;
    drop(lock.try_acquire(&resource()).await.unwrap());
}

#[tokio::test]
async fn a_clock_that_is_set_back_closes_no_lock_for_longer_than_a_lease() {
    let place = ready().await;
    let brief = short(&place.pool, Duration::from_secs(2)).renew(false).build().unwrap();
    let gone = brief.acquire(&resource()).await.unwrap();
    let token = gone.token();
    std::mem::forget(gone);
    run(&place, words::BACK).await;
    let left = held(brief.try_acquire(&resource()).await);
    assert!(left <= Duration::from_secs(3), "{left:?}");
    let next = service(&place.other()).acquire(&resource()).await.unwrap();
    assert!(next.token() > token);
    // The row is right again.
    let left = held(brief.try_acquire(&resource()).await);
    assert!(left <= LONG + Duration::from_secs(1), "{left:?}");
}

#[tokio::test]
async fn a_clock_that_is_set_back_and_forth_ends_no_lease() {
    let place = ready().await;
    let lock = builder(&place.pool).renew(false).build().unwrap();
    let lease = lock.acquire(&resource()).await.unwrap();
    for _ in 0..2 {
        for step in [words::BACK, words::FORTH, words::BACK, words::FORTH] {
            run(&place, step).await;
            for _ in 0..2 {
                let left = held(service(&place.other()).try_acquire(&resource()).await);
                assert!(left <= LONG + Duration::from_secs(1), "{step}: {left:?}");
            }
        }
        lease.renew().await.unwrap();
    }
    assert_eq!(lease.release().await, Ok(Released::Released));
}
