use super::*;

#[tokio::test]
async fn a_holder_that_was_followed_is_notified_and_releases_nothing() {
    let place = ready().await;
    let patient = || builder(&place.pool).renew(false);
    let locks = [
        short(&place.pool, Duration::from_secs(30)),
        // It does not know of it when it releases.
        patient(),
        patient().lock_at_least_for(LONG / 2),
    ];
    for (number, lock) in locks.into_iter().enumerate() {
        let lock = lock.build().unwrap();
        let first = lock.acquire(&resource()).await.unwrap();
        // The database's clock jumps forward.
        run(&place, words::EXPIRE).await;
        let second = service(&place.other()).acquire(&resource()).await.unwrap();
        assert!(second.token() > first.token());
        if number == 0 {
            lost(&first, Loss::Superseded).await;
        }
        assert_eq!(first.release().await, Ok(Released::Lapsed));
        assert!(held(lock.try_acquire(&resource()).await) > LONG / 2);
        release(second).await;
    }
}

#[tokio::test]
async fn a_lease_that_expired_in_the_database_alone_is_renewed_if_nobody_came() {
    let place = ready().await;
    let (lock, other) = (service(&place.pool), service(&place.other()));
    let lease = lock.acquire(&resource()).await.unwrap();
    run(&place, words::EXPIRE).await;
    lease.renew().await.unwrap();
    held(other.try_acquire(&resource()).await);
    // If it is not, it was not held until its release.
    run(&place, words::EXPIRE).await;
    assert_eq!(lease.release().await, Ok(Released::Lapsed));
    release(other.try_acquire(&resource()).await.unwrap()).await;
    let part = lock.acquire_shared(&resource()).await.unwrap();
    run(&place, words::EXPIRE).await;
    assert_eq!(part.release().await, Ok(Released::Lapsed));
}

#[tokio::test]
async fn a_clock_that_is_set_back_closes_no_lock_for_longer_than_a_lease() {
    let place = ready().await;
    let ttl = Duration::from_secs(12);
    let gone = brief(&place.pool, ttl);
    for (shared, joins) in [(false, false), (true, false), (true, true)] {
        if shared {
            std::mem::forget(gone.acquire_shared(&resource()).await.unwrap());
            run(&place, words::PART_BACK).await;
        } else {
            std::mem::forget(gone.acquire(&resource()).await.unwrap());
        }
        set_clock_back(&place, 3600).await;
        if joins {
            release(gone.acquire_shared(&resource()).await.unwrap()).await;
            // The row is right again, with the part that is left.
            let latest = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
            let latest = i64::try_from((latest + ttl).as_millis()).unwrap() + 1000;
            assert!(expires_at(&place).await <= latest, "{latest}");
        }
        for again in [false, true] {
            if again {
                set_clock_back(&place, 3600).await;
            }
            let left = held(gone.try_acquire(&resource()).await);
            assert!(left <= ttl + Duration::from_secs(1), "{left:?}");
        }
        let next = builder(&place.other()).wait(LONG).build().unwrap().acquire(&resource()).await.unwrap();
        // The row is right again.
        let left = held(gone.try_acquire(&resource()).await);
        assert!(left <= LONG + Duration::from_secs(1), "{left:?}");
        release(next).await;
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_and_forth_ends_no_lease_and_leaves_no_trace() {
    let place = ready().await;
    let lease = brief(&place.pool, LONG).acquire(&resource()).await.unwrap();
    for _ in 0..2 {
        for step in [3600, -3600, 3600, -3600] {
            set_clock_back(&place, step).await;
            for _ in 0..2 {
                let left = held(service(&place.other()).try_acquire(&resource()).await);
                assert!(left <= LONG + Duration::from_secs(1), "{step}: {left:?}");
            }
        }
        lease.renew().await.unwrap();
    }
    // Else the next correction of the clock would count from the first one.
    run(&place, "UPDATE fencing_leases SET clock_anomaly_since = expires_at").await;
    held(service(&place.pool).try_acquire(&resource()).await);
    let traces = "SELECT count(*) FROM fencing_leases WHERE clock_anomaly_since IS NOT NULL";
    assert_eq!(sqlx::query_scalar::<_, i64>(traces).fetch_one(&place.pool).await.unwrap(), 0);
    release(lease).await;
}
