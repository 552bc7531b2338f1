//! Other transactions in the way, as MySQL alone has them.

use sqlx::MySqlPool;

use super::place::{DEFAULTS, Place};
use super::server::conflicts::{LOCK_ROW, by_hand, held_up, released, with_budget};
use super::words;
use crate::common::*;

/// Calls a procedure for this owner.
async fn call<T>(pool: &MySqlPool, call: &'static str, owner: &str) -> T
where
    T: for<'r> sqlx::FromRow<'r, sqlx::mysql::MySqlRow> + Send + Unpin,
{
    sqlx::query_as(call).bind(owner.to_owned()).fetch_all(pool).await.unwrap().remove(0)
}

#[tokio::test]
async fn the_release_of_another_owner_does_not_wait() {
    let place = released().await;
    let _lease = with_budget(&place.pool, LONG / 2).acquire(&resource()).await.unwrap();
    let _by_hand = by_hand(&place, LOCK_ROW).await;
    for level in DEFAULTS {
        assert_eq!(leaves(&place.at(level), "another").await, 0);
    }
}

#[tokio::test]
async fn who_writes_under_the_older_lease_does_not_hold_up_the_next() {
    let place = released().await;
    let old = with_budget(&place.pool, LONG / 2).acquire(&resource()).await.unwrap();
    // It has raised the mark, and sleeps.
    let writing = sql::begin(&place.pool, &resource(), old.token()).await.unwrap();
    sqlx::query(words::EXPIRE).execute(&place.pool).await.unwrap();
    for level in DEFAULTS {
        let lock = with_budget(&place.at(level), Duration::from_secs(15));
        let new = lock.try_acquire(&resource()).await.unwrap();
        assert!(new.token() > old.token());
        release(new).await;
    }
    drop(writing);
}

/// A row that two share, where a locking read fails if the row has changed since a plain one. Gives the first's name.
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
    call(pool, "CALL fencing_lease_acquire('invoice/42', ?, TRUE, 60000, 9)", owner).await
}

async fn leaves(pool: &MySqlPool, owner: &str) -> i64 {
    let (left,) = call(pool, "CALL fencing_lease_release('invoice/42', ?, 0, 9)", owner).await;
    left
}

const RENEWED: &str = "UPDATE fencing_leases SET expires_at = expires_at + 1";
const ANOTHERS: &str = "UPDATE fencing_leases SET owner = 'another', token = token + 1, parts = NULL";
const NONE_LEFT: &str = "UPDATE fencing_leases SET expires_at = 0";

/// The row is changed by hand before the other statement begins.
async fn during<T>(place: &Place, change: &'static str, other: impl Future<Output = T>) -> T {
    held_up(place, change, other, async |_| ()).await.0
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
    held(with_budget(&place.pool, LONG / 2).try_acquire(&resource()).await);
    // It is free now: the next one begins anew.
    let (place, pool, _) = two_share().await;
    let (before, _) = shared(&pool, &third).await;
    leaves(&pool, &third).await;
    let (token, _) = during(&place, NONE_LEFT, shared(&pool, &third)).await;
    assert_eq!(token, before.map(|before| before + 1));
    assert_eq!(leaves(&pool, &first).await, 0);
    assert_eq!(leaves(&pool, &third).await, 2);
}
