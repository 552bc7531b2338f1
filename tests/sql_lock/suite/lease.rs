use std::sync::Arc;

use super::*;
use fencing::Lock;

#[tokio::test]
async fn it_is_held_until_it_is_released() {
    let place = ready().await;
    let (lock, other) = (service(&place.pool), service(&place.other()));
    let lease = lock.acquire(&resource()).await.unwrap();
    assert_eq!(lease.resource(), &resource());
    assert!(lease.valid_for() > LONG / 2 && lease.valid_for() <= LONG);
    for lock in [&lock, &other] {
        let retry_after = held(lock.try_acquire(&resource()).await);
        assert!(retry_after > LONG / 2 && retry_after <= LONG, "{retry_after:?}");
    }
    let lost = lease.lost();
    assert_eq!(lease.release().await, Ok(Released::Released));
    assert_eq!(lost.await, Loss::Released);
    let next = other.try_acquire(&resource()).await.unwrap();
    assert_eq!(next.release().await, Ok(Released::Released));
}

#[tokio::test]
async fn a_dropped_lease_is_released() {
    let place = ready().await;
    let lock = service(&place.pool);
    for _ in 0..5 {
        // At once, as the next of the same process goes behind the release.
        drop(lock.try_acquire(&resource()).await.unwrap());
    }
    drop(lock.try_acquire(&resource()).await.unwrap());
    drop(service(&place.other()).acquire(&resource()).await.unwrap());
}

#[tokio::test]
async fn names_that_a_collation_would_merge_stay_apart() {
    let place = ready().await;
    let lock = service(&place.pool);
    let long = "x".repeat(Resource::MAX_BYTES);
    let names = ["R", "r", "a b", "ab", "ä", "a\u{308}", "ß", "ss", "ı", "i", "I", "%", "'; --"];
    let mut leases = Vec::new();
    for name in names.into_iter().chain([&*long, &long[1..]]) {
        let resource = Resource::new(name).unwrap();
        leases.push(lock.try_acquire(&resource).await.unwrap());
    }
    for lease in leases {
        held(lock.try_acquire(lease.resource()).await);
        assert_eq!(lease.release().await, Ok(Released::Released));
    }
}

#[tokio::test]
async fn it_is_a_lock_as_any_other() {
    async fn work(lock: &impl Lock) -> u64 {
        let lease = lock.acquire(&resource()).await.unwrap();
        held(lock.try_acquire(&resource()).await);
        lease.run(async { 7 }).await.unwrap()
    }
    let place = ready().await;
    let lock = Arc::new(service(&place.pool));
    // Its futures may go to other threads.
    let spawned = tokio::spawn(async move { work(&*lock).await });
    assert_eq!(spawned.await.unwrap(), 7);
}

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
    let build = |set: fn(SqlLockBuilder<Db>) -> SqlLockBuilder<Db>| {
        set(SqlLock::builder(place.pool.clone())).build().unwrap_err()
    };
    assert_eq!(build(|lock| lock.ttl(Duration::ZERO)).setting(), "ttl");
    assert_eq!(build(|lock| lock.budget(Duration::from_secs(6))).setting(), "budget");
    assert_eq!(build(|lock| lock.drift(Duration::from_secs(6))).setting(), "drift");
    assert_eq!(build(|lock| lock.max_hold(Duration::from_secs(1))).setting(), "max_hold");
    // A short TTL takes a short budget along.
    let lock = SqlLock::new(place.pool.clone());
    lock.with_ttl(Duration::from_millis(100)).unwrap();
    assert!(format!("{lock:?}").contains("budget: 2s"), "{lock:?}");
}

/// Else the next correction of the clock would count from the first one.
#[tokio::test]
async fn a_clock_that_was_put_right_leaves_no_trace() {
    let place = ready().await;
    let lease = service(&place.pool).acquire(&resource()).await.unwrap();
    run(&place, "UPDATE fencing_leases SET odd_since = expires_at").await;
    held(service(&place.pool).try_acquire(&resource()).await);
    let traces = "SELECT count(*) FROM fencing_leases WHERE odd_since IS NOT NULL";
    let traces = sqlx::query_scalar::<_, i64>(traces).fetch_one(&place.pool).await;
    assert_eq!(traces.unwrap(), 0);
    let _ = lease.release().await;
}
