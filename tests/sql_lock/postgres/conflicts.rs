//! Other transactions, and other settings.

use std::time::Duration;

use fencing::lock::Released;
use fencing::lock::sql::SqlLock;
use fencing::sql;

use super::place::Place;
use super::server::conflicts::{LOCK_ROW, nothing_waits, service};
use crate::common::resource;

#[tokio::test]
async fn a_row_that_somebody_keeps_locked_holds_no_renewal_or_release_up() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    let lock = service(&place.other(), Duration::from_millis(300));
    let lease = lock.acquire(&resource()).await.unwrap();
    let mut by_hand = place.pool.begin().await.unwrap();
    sqlx::query(LOCK_ROW).execute(&mut *by_hand).await.unwrap();
    lease.renew().await.unwrap_err();
    nothing_waits(&place).await;
    lease.release().await.unwrap_err();
    nothing_waits(&place).await;
    by_hand.rollback().await.unwrap();
    // It was tried again.
    lock.settle().await;
}

/// Renewals stop on their way into the table for a while; nothing else does.
const SLOW_RENEWALS: &str = "
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF current_query() LIKE '%fencing_lease_renew(%' THEN PERFORM pg_sleep(3); END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER slow BEFORE UPDATE ON fencing_leases FOR EACH STATEMENT EXECUTE FUNCTION slow();
";

#[tokio::test]
async fn a_renewal_that_comes_after_the_release_does_not_lock_again() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    sqlx::raw_sql(SLOW_RENEWALS).execute(&place.pool).await.unwrap();
    let lock = SqlLock::builder(place.other()).ttl(Duration::from_secs(12));
    let lock = lock.budget(Duration::from_secs(6)).build().unwrap();
    let lease = lock.acquire(&resource()).await.unwrap();
    let asleep = async |some: bool| {
        let asleep = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event = 'PgSleep'";
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while (sqlx::query_scalar::<_, i64>(asleep).fetch_one(&place.pool).await.unwrap() > 0)
            != some
        {
            assert!(std::time::Instant::now() < end, "no renewal, or one without end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    asleep(true).await;
    assert_eq!(lease.release().await, Ok(Released::Released));
    asleep(false).await;
    drop(lock.try_acquire(&resource()).await.unwrap());
}
