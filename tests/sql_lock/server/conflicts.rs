//! Other transactions in the way, and time that passes meanwhile.

use std::time::{Duration, Instant};

use fencing::Resource;
use fencing::lock::Released;
use fencing::lock::sql::SqlLock;
use fencing::sql;
use fencing::time::ManualClock;
use fencing_protocol::Fault;
use sqlx::Pool;
use tokio::time::sleep;

use super::place::{DEFAULTS, Db, Place};
use super::words;
use crate::common::{LONG, fault, held, resource};

pub const LOCK_ROW: &str = "SELECT token FROM fencing_leases FOR UPDATE";

pub fn service(pool: &Pool<Db>, budget: Duration) -> SqlLock<Db> {
    SqlLock::builder(pool.clone()).ttl(LONG).budget(budget).build().unwrap()
}

/// A database with a row that was released.
pub async fn released() -> Place {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    let lease = service(&place.pool, LONG / 2).acquire(&resource()).await.unwrap();
    assert_eq!(lease.release().await, Ok(Released::Released));
    place
}

/// Nothing goes on waiting in the server when its caller has given up.
pub async fn nothing_waits(place: &Place) {
    let mut conn = place.pool.acquire().await.unwrap();
    let end = Instant::now() + Duration::from_secs(15);
    while sqlx::query_scalar::<_, i64>(words::WAITING).fetch_one(&mut *conn).await.unwrap() > 0 {
        assert!(Instant::now() < end, "the statement outlives its caller");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn under_every_isolation_level_a_conflict_is_no_holder() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    for level in 0..words::LEVELS.len() {
        let mut tasks = Vec::new();
        for _ in 0..6 {
            let lock = service(&place.with(words::LEVELS[level]), LONG / 2);
            tasks.push(tokio::spawn(async move {
                let mut leases = 0;
                while leases < 6 {
                    // The first of a resource as well as the next.
                    let name = Resource::new(format!("{level}/{}", leases / 2)).unwrap();
                    match lock.try_acquire(&name).await {
                        Ok(lease) => {
                            assert_eq!(lease.release().await, Ok(Released::Released));
                            leases += 1;
                        }
                        Err(error) => drop(held(Err(error))),
                    }
                    sleep(Duration::from_millis(1)).await;
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_somebody_keeps_locked_is_no_holder() {
    let place = released().await;
    for (lock, unlock) in words::LOCKED {
        let mut by_hand = place.pool.acquire().await.unwrap();
        sqlx::raw_sql(*lock).execute(&mut *by_hand).await.unwrap();
        fault(service(&place.other(), Duration::from_millis(300)).try_acquire(&resource()).await);
        nothing_waits(&place).await;
        sqlx::raw_sql(*unlock).execute(&mut *by_hand).await.unwrap();
    }
    drop(service(&place.other(), Duration::from_secs(20)).acquire(&resource()).await.unwrap());
}

#[tokio::test]
async fn a_row_that_is_closed_is_not_waited_for() {
    let place = released().await;
    let _lease = service(&place.pool, LONG / 2).acquire(&resource()).await.unwrap();
    let mut by_hand = place.pool.begin().await.unwrap();
    sqlx::query(LOCK_ROW).execute(&mut *by_hand).await.unwrap();
    for level in DEFAULTS {
        held(service(&place.at(level), Duration::from_secs(15)).try_acquire(&resource()).await);
    }
    by_hand.rollback().await.unwrap();
}

#[tokio::test]
async fn a_row_that_is_closed_for_ever_is_held() {
    let place = released().await;
    let lock = service(&place.pool, Duration::from_secs(10));
    sqlx::query(words::CLOSE_FOR_EVER).execute(&place.pool).await.unwrap();
    held(lock.try_acquire(&resource()).await);
    sqlx::query(words::FREE).execute(&place.pool).await.unwrap();
    drop(lock.acquire(&resource()).await.unwrap());
}

#[tokio::test]
async fn the_time_that_the_database_takes_is_taken_off_the_lease() {
    let place = released().await;
    let clock = ManualClock::default();
    let lock = SqlLock::builder(place.other()).ttl(LONG).budget(LONG / 2).renew(false);
    let lock = lock.clock(clock.clone()).build().unwrap();
    for (taken, late) in [(LONG / 2, false), (LONG, true)] {
        let mut by_hand = place.pool.begin().await.unwrap();
        sqlx::query(LOCK_ROW).execute(&mut *by_hand).await.unwrap();
        let name = resource();
        let (outcome, ()) = tokio::join!(lock.try_acquire(&name), async {
            place.blocked().await;
            clock.advance(taken);
            by_hand.rollback().await.unwrap();
        });
        if late {
            assert_eq!(fault(outcome), Fault::GrantedTooLate);
            // And it is taken back.
            drop(lock.try_acquire(&resource()).await.unwrap());
        } else {
            let lease = outcome.unwrap();
            let left = lease.valid_for();
            assert!(left > LONG / 4 && left <= LONG / 2, "{left:?}");
            assert_eq!(lease.release().await, Ok(Released::Released));
        }
    }
}

#[tokio::test]
async fn a_grant_that_comes_after_the_budget_is_taken_back() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    sqlx::raw_sql(words::SLOW_GRANTS).execute(&place.pool).await.unwrap();
    let pool = place.other();
    let (brief, patient) = (service(&pool, LONG / 60), service(&pool, LONG / 3));
    // So that there is a connection.
    assert!(brief.health().await.has_quorum());
    assert_eq!(fault(brief.try_acquire(&resource()).await), Fault::TimedOut);
    assert!(patient.acquire(&resource()).await.unwrap().token().get() > 1);
}
