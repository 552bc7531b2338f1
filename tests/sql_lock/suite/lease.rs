use super::*;

#[tokio::test]
async fn without_the_tables_it_says_what_to_do() {
    let place = Place::empty().await;
    let lock = service(&place.pool);
    let error = lock.try_acquire(&resource()).await.unwrap_err().to_string();
    assert!(error.starts_with("invoice/42 was not acquired: "), "{error}");
    assert!(error.contains("run fencing::sql::migrate first"), "{error}");
    let health = lock.health().await;
    assert_eq!((health.needed, health.granting, health.has_quorum()), (1, 0, false));
    assert!(health.causes[0].to_string().contains("run fencing::sql::migrate first"));
    sql::migrate(&place.pool).await.unwrap();
    assert!(lock.health().await.has_quorum());
    drop(lock.try_acquire(&resource()).await.unwrap());
}

#[tokio::test]
async fn wrong_values_are_named() {
    let place = Place::empty().await;
    let second = Duration::from_secs(1);
    let lock = || SqlLock::builder(place.pool.clone());
    let wrong = [
        ("ttl", lock().ttl(Duration::ZERO)),
        ("budget", lock().budget(second * 6)),
        ("drift", lock().drift(second * 6)),
        ("max_hold", lock().max_hold(second)),
    ];
    for (setting, builder) in wrong {
        assert_eq!(builder.build().unwrap_err().setting(), setting);
    }
    // A short TTL takes a short budget along.
    let lock = SqlLock::new(place.pool.clone());
    lock.with_ttl(Duration::from_millis(100)).unwrap();
    assert!(format!("{lock:?}").contains("ttl: 10s"), "{lock:?}");
}

#[tokio::test]
async fn a_database_that_may_not_be_written_grants_nothing() {
    let place = ready().await;
    let cause = fault(service(&place.read_only()).try_acquire(&resource()).await);
    assert!(matches!(cause, Fault::NotNow(_) | Fault::Denied(_)), "{cause:?}");
}

#[tokio::test]
async fn a_writer_in_the_way_is_waited_for_and_is_no_holder() {
    let place = ready().await;
    release(service(&place.pool).acquire(&resource()).await.unwrap()).await;
    let writes = async || {
        let mut writer = place.pool.begin().await.unwrap();
        sqlx::query("UPDATE fencing_leases SET token = token").execute(&mut *writer).await.unwrap();
        writer
    };
    for pool in [place.impatient(), place.other()] {
        let (patient, name, writer) = (service(&pool), resource(), writes().await);
        let (lease, ()) = tokio::join!(patient.try_acquire(&name), async {
            sleep(Duration::from_millis(200)).await;
            writer.commit().await.unwrap();
        });
        release(lease.unwrap()).await;
        let writer = writes().await;
        let brief = builder(&pool).budget(Duration::from_millis(200)).build().unwrap();
        fault(brief.try_acquire(&resource()).await);
        writer.commit().await.unwrap();
        // What timed out may have run since, and is taken back.
        release(patient.acquire(&resource()).await.unwrap()).await;
    }
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

/// Waits until the database has so many sessions, where it says so.
async fn sessions_become(expected: i64, watcher: &Pool<Db>) {
    let Some(count) = words::SESSIONS else { return };
    let found = async || sqlx::query_scalar::<_, i64>(count).fetch_one(watcher).await.unwrap();
    until(&format!("{expected} sessions"), async || found().await == expected).await;
}

/// It renews and releases while the application uses every connection of the pool.
#[tokio::test]
async fn the_connection_besides_the_pools_ends_with_the_pool_or_with_the_last_clone() {
    for closes_pool in [true, false] {
        let place = ready().await;
        place.pool.close().await;
        let (watcher, pool) = (single(&place.pool), single(&place.pool));
        sessions_become(1, &watcher).await;
        let lock = short(&pool, Duration::from_secs(20)).renew(false).build().unwrap();
        let lease = lock.acquire(&resource()).await.unwrap();
        let busy = pool.acquire().await.unwrap();
        lease.renew().await.unwrap();
        sessions_become(3, &watcher).await;
        if closes_pool {
            drop(busy);
            pool.close().await;
            sessions_become(1, &watcher).await;
            let fault = fault(lock.try_acquire(&resource()).await);
            assert!(fault.to_string().contains("the pool is closed"), "{fault}");
            lease.release().await.unwrap_err();
        } else {
            release(lease).await;
            drop((busy, lock.clone(), lock));
            sessions_become(2, &watcher).await;
        }
    }
}

/// The pool of a service that is built elsewhere was built where a runtime was.
#[tokio::test]
async fn a_service_is_built_without_a_runtime() {
    let place = ready().await;
    let pool = single(&place.pool);
    let lock = std::thread::spawn(move || SqlLock::new(pool)).join().unwrap();
    drop(lock.acquire(&resource()).await.unwrap());
}
