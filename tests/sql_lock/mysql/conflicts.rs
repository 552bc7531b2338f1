//! Other transactions in the way, as MySQL alone has them.

use std::time::Duration;

use fencing::lock::Released;
use fencing::sql;
use sqlx::{MySqlConnection, MySqlPool};

use super::place::{DEFAULTS, Place};
use super::server::conflicts::{LOCK_ROW, released, service};
use super::words;
use crate::common::{LONG, held, resource};

const CLOCK: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

async fn number(conn: &mut MySqlConnection, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(conn).await.unwrap()
}

#[tokio::test]
async fn a_lock_that_is_not_waited_for_is_asked_for_again() {
    let place = released().await;
    let mut by_hand = place.pool.begin().await.unwrap();
    sqlx::query(LOCK_ROW).execute(&mut *by_hand).await.unwrap();
    let (lock, name) = (service(&place.impatient(), Duration::from_secs(20)), resource());
    let (lease, ()) = tokio::join!(lock.try_acquire(&name), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        by_hand.rollback().await.unwrap();
    });
    assert_eq!(lease.unwrap().release().await, Ok(Released::Released));
}

#[tokio::test]
async fn the_release_of_another_owner_does_not_wait() {
    let place = released().await;
    let _lease = service(&place.pool, LONG / 2).acquire(&resource()).await.unwrap();
    let mut by_hand = place.pool.begin().await.unwrap();
    sqlx::query(LOCK_ROW).execute(&mut *by_hand).await.unwrap();
    for level in DEFAULTS {
        let free = "CALL fencing_lease_release('invoice/42', 'another', 0, 1)";
        let freed = sqlx::query_scalar::<_, i64>(free).fetch_all(&place.at(level)).await;
        assert_eq!(freed.unwrap(), [0]);
    }
}

#[tokio::test]
async fn who_writes_under_the_older_lease_does_not_hold_up_the_next() {
    let place = released().await;
    let old = service(&place.pool, LONG / 2).acquire(&resource()).await.unwrap();
    // It has raised the mark, and sleeps.
    let writing = sql::begin(&place.pool, &resource(), old.token()).await.unwrap();
    sqlx::query(words::EXPIRE).execute(&place.pool).await.unwrap();
    for level in DEFAULTS {
        let lock = service(&place.at(level), Duration::from_secs(15));
        let new = lock.try_acquire(&resource()).await.unwrap();
        assert!(new.token() > old.token());
        new.release().await.unwrap();
    }
    drop(writing);
}

#[tokio::test]
async fn the_clock_is_read_after_the_wait() {
    let place = released().await;
    let lock = service(&place.other(), LONG / 2);
    let mut by_hand = place.pool.begin().await.unwrap();
    // Closed for a moment, which is over when the wait is.
    let close = "UPDATE fencing_leases SET expires_at =
        TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + 1000000";
    sqlx::query(close).execute(&mut *by_hand).await.unwrap();
    let name = resource();
    let (lease, before) = tokio::join!(lock.try_acquire(&name), async {
        place.blocked().await;
        let expires_at = number(&mut by_hand, "SELECT expires_at FROM fencing_leases").await;
        while number(&mut by_hand, CLOCK).await <= expires_at {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let before = number(&mut by_hand, CLOCK).await;
        by_hand.commit().await.unwrap();
        before
    });
    let lease = lease.unwrap();
    let mut conn = place.pool.acquire().await.unwrap();
    let expires_at = number(&mut conn, "SELECT expires_at FROM fencing_leases").await;
    let lasting = i64::try_from(LONG.as_micros()).unwrap();
    assert!(expires_at >= before + lasting, "{} short", before + lasting - expires_at);
    assert_eq!(lease.release().await, Ok(Released::Released));
}

/// The owner and the token of the one row.
async fn own(place: &Place) -> (String, i64) {
    let row = "SELECT CAST(owner AS CHAR), token FROM fencing_leases";
    sqlx::query_as(row).fetch_one(&place.pool).await.unwrap()
}

/// A renewal as it reaches the server, of 60 seconds: whether it was one, and whether
/// another had come.
async fn renew(pool: &MySqlPool, owner: &str, token: i64) -> i64 {
    let renew = sqlx::query_scalar("CALL fencing_lease_renew('invoice/42', ?, ?, 60000, 9)");
    let answer = renew.bind(owner.to_owned()).bind(token).fetch_all(pool).await.unwrap();
    answer[0]
}

#[tokio::test]
async fn a_renewal_counts_from_after_its_wait() {
    let place = released().await;
    let _lease = service(&place.pool, LONG / 2).acquire(&resource()).await.unwrap();
    let (owner, token) = own(&place).await;
    let mut by_hand = place.pool.begin().await.unwrap();
    sqlx::query(LOCK_ROW).execute(&mut *by_hand).await.unwrap();
    let pool = place.other();
    let (renewed, before) = tokio::join!(renew(&pool, &owner, token), async {
        place.blocked().await;
        let before = number(&mut by_hand, CLOCK).await;
        by_hand.rollback().await.unwrap();
        before
    });
    assert_eq!(renewed, 1);
    let mut conn = place.pool.acquire().await.unwrap();
    let expires_at = number(&mut conn, "SELECT expires_at FROM fencing_leases").await;
    assert!(expires_at >= before + 60_000_000, "{} short", before + 60_000_000 - expires_at);
}

#[tokio::test]
async fn a_renewal_that_comes_after_the_release_does_not_lock_again() {
    let place = released().await;
    let lock = service(&place.pool, LONG / 2);
    let lease = lock.acquire(&resource()).await.unwrap();
    let (owner, token) = own(&place).await;
    assert_eq!(renew(&place.pool, &owner, token).await, 1);
    assert_eq!(renew(&place.pool, &owner, token - 1).await, 0);
    assert_eq!(renew(&place.pool, "another", token).await, 0);
    assert_eq!(lease.release().await, Ok(Released::Released));
    assert_eq!(renew(&place.pool, &owner, token).await, 0);
    drop(lock.try_acquire(&resource()).await.unwrap());
}

/// A row that two share, where a read with a lock fails if the row has changed since a read without one.
/// Gives the first one's name.
async fn two_share() -> (Place, MySqlPool, String) {
    let place = released().await;
    let pool = place.with("SET innodb_snapshot_isolation = ON");
    for name in ["a", "b"] {
        assert!(shared(&pool, &name.repeat(32)).await.0.is_some());
    }
    (place, pool, "a".repeat(32))
}

/// What the server answers to one that asks to share the row: the token, or for how long it is closed.
async fn shared(pool: &MySqlPool, owner: &str) -> (Option<i64>, Option<i64>) {
    let share = sqlx::query_as("CALL fencing_lease_acquire('invoice/42', ?, TRUE, 60000, 9)");
    share.bind(owner.to_owned()).fetch_all(pool).await.unwrap()[0]
}

async fn leaves(pool: &MySqlPool, owner: &str) -> i64 {
    let leave = sqlx::query_scalar("CALL fencing_lease_release('invoice/42', ?, 0, 9)");
    leave.bind(owner.to_owned()).fetch_all(pool).await.unwrap()[0]
}

const RENEWED: &str = "UPDATE fencing_leases SET expires_at = expires_at + 1";
const ANOTHERS: &str =
    "UPDATE fencing_leases SET owner = 'another', token = token + 1, parts = NULL";
const NONE_LEFT: &str = "UPDATE fencing_leases SET expires_at = 0";

/// The row is locked by hand before the other statement begins.
async fn during<T>(place: &Place, change: &'static str, other: impl Future<Output = T>) -> T {
    let (begun, begins) = tokio::sync::oneshot::channel();
    let by_hand = async {
        let mut by_hand = place.pool.begin().await.unwrap();
        sqlx::query(change).execute(&mut *by_hand).await.unwrap();
        begun.send(()).unwrap();
        place.blocked().await;
        by_hand.commit().await.unwrap();
    };
    let other = async {
        begins.await.unwrap();
        other.await
    };
    tokio::join!(by_hand, other).1
}

/// Others who share the row renew their parts all the time.
#[tokio::test]
async fn who_leaves_and_who_joins_is_not_held_up_by_those_who_renew() {
    let (place, pool, first) = two_share().await;
    let third = "c".repeat(32);
    let (token, _) = during(&place, RENEWED, shared(&pool, &third)).await;
    assert!(token.is_some());
    assert_eq!(during(&place, RENEWED, leaves(&pool, &first)).await, 1);
    assert_eq!(leaves(&pool, &third).await, 1);
    assert_eq!(leaves(&pool, &"b".repeat(32)).await, 2);
}

/// What was read without a lock is not what is decided by.
#[tokio::test]
async fn what_happens_during_the_wait_for_a_shared_row_counts() {
    let (place, pool, first) = two_share().await;
    let third = "c".repeat(32);
    // One has it alone now: nobody joins, and who left before leaves it as it is.
    let (token, left) = during(&place, ANOTHERS, shared(&pool, &third)).await;
    assert!(token.is_none() && left.unwrap() > 30_000, "{token:?}, {left:?}");
    let (place, pool, _) = two_share().await;
    assert_eq!(during(&place, ANOTHERS, leaves(&pool, &first)).await, 0);
    held(service(&place.pool, LONG / 2).try_acquire(&resource()).await);
    // It is free now: the next one begins anew.
    let (place, pool, _) = two_share().await;
    let (_, before) = own(&place).await;
    assert_eq!(during(&place, NONE_LEFT, shared(&pool, &third)).await.0, Some(before + 1));
    assert_eq!(leaves(&pool, &first).await, 0);
    assert_eq!(leaves(&pool, &third).await, 2);
}
