//! Who holds a lease: which of several, who released early, what the rows tell operators.

use std::time::SystemTime;

use fencing::lock::{LeaseRecord, Operator};

use super::*;

/// As long as a name may be.
const LONGEST: &str = "billing-7.payments.europe-west-1.internal.example.com:4294967295";

fn called(pool: &Pool<Db>, name: &str) -> SqlLock<Db> {
    builder(pool).wait(Duration::ZERO).holder(name).build().unwrap()
}

fn name(lease: &LeaseRecord) -> Option<&str> {
    lease.holder.as_ref()?.name.as_deref()
}

#[tokio::test]
async fn the_error_names_the_one_of_several_that_ends_last_or_who_has_released_early() {
    let place = ready().await;
    let short = builder(&place.other()).ttl(LONG / 2).build().unwrap();
    let long = called(&place.pool, "long").acquire_shared(&resource()).await.unwrap();
    // The time when a lease began has milliseconds.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let between = SystemTime::now();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let lease = short.acquire_shared(&resource()).await.unwrap();
    lease.renew().await.unwrap();
    let found = holder(called(&place.other(), "c").try_acquire(&resource()).await);
    assert!(found.since.is_some_and(|since| since < between), "{found:?}");
    release(long).await;
    let found = holder(called(&place.other(), "c").try_acquire(&resource()).await);
    assert!(found.since.is_some_and(|since| since > between), "{found:?}");
    release(lease).await;

    // One that was released early stays closed for its rest, and says who had it.
    let least = builder(&place.pool).lock_at_least_for(LONG).holder(LONGEST).build().unwrap();
    release(least.acquire(&resource()).await.unwrap()).await;
    let found = holder(called(&place.other(), "b").try_acquire(&resource()).await);
    assert_eq!(found.name.as_deref(), Some(LONGEST));
}

/// What the rows say beyond the contract of operators, and the audit of those that were ended by force.
#[tokio::test]
async fn operators_see_what_is_left_and_who_has_which_part_and_leave_a_line() {
    let place = ready().await;
    let (lock, other) = (called(&place.pool, "a"), called(&place.pool, "b"));
    let alone = lock.acquire(&resource()).await.unwrap();
    let shared = named("shared");
    let _parts = [lock.acquire_shared(&shared).await.unwrap(), other.acquire_shared(&shared).await.unwrap()];
    // A row that cannot be read does not end the list.
    let _unread = lock.acquire(&named("a")).await.unwrap();
    sqlx::query("UPDATE fencing_leases SET resource = ' a' WHERE resource = 'a'").execute(&place.pool).await.unwrap();
    let first = place.pool.leases(None, 1).await.unwrap();
    assert!(first.len() == 1 && first[0].resource == resource(), "{first:?}");
    assert_eq!(place.pool.leases(Some(&shared), 1).await.unwrap(), []);
    let all = place.pool.leases(None, 100).await.unwrap();
    let left = |lease: &LeaseRecord| lease.remaining.unwrap();
    assert!(all.iter().map(left).all(|left| left > LONG / 2 && left <= LONG), "{all:?}");
    let mut names = [name(&all[1]), name(&all[2])];
    names.sort_unstable();
    assert!(!words::PARTS_HAVE_NAMES || names == [Some("a"), Some("b")], "{all:?}");
    let lines = "SELECT count(*) FROM fencing_audit WHERE from_token = to_token AND lowered_at IS NOT NULL";
    for (seen, lines_of_it) in [(&all[0], 1), (&all[0], 1), (&all[1], 2)] {
        place.pool.force_release(seen).await.unwrap();
        let lines = sqlx::query_scalar::<_, i64>(lines).fetch_one(&place.pool).await;
        assert_eq!(lines.unwrap(), lines_of_it, "{seen:?}");
    }
    drop(alone);
}
