use fencing_protocol::Fault;

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

#[tokio::test]
async fn a_database_that_may_not_be_written_grants_nothing() {
    let place = ready().await;
    let cause = fault(service(&place.read_only()).try_acquire(&resource()).await);
    assert!(matches!(cause, Fault::Refused(_) | Fault::Denied(_)), "{cause:?}");
}

/// Else the next correction of the clock would count from the first one.
#[tokio::test]
async fn a_clock_that_was_put_right_leaves_no_trace() {
    let place = ready().await;
    let lease = service(&place.pool).acquire(&resource()).await.unwrap();
    run(&place, "UPDATE fencing_leases SET clock_anomaly_since = expires_at").await;
    held(service(&place.pool).try_acquire(&resource()).await);
    let traces = "SELECT count(*) FROM fencing_leases WHERE clock_anomaly_since IS NOT NULL";
    let traces = sqlx::query_scalar::<_, i64>(traces).fetch_one(&place.pool).await;
    assert_eq!(traces.unwrap(), 0);
    let _ = lease.release().await;
}
