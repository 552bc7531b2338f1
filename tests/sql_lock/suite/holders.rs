//! Who holds a lease: told to others, listed for operators, and ended by force.

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
async fn the_error_names_the_holder() {
    assert_eq!(LONGEST.len(), 64);
    let place = ready().await;
    let (a, b) = (called(&place.pool, LONGEST), called(&place.other(), "b"));
    let before = SystemTime::now() - Duration::from_secs(1);
    let lease = a.acquire(&resource()).await.unwrap();
    let found = holder(b.try_acquire(&resource()).await);
    assert_eq!(found.name.as_deref(), Some(LONGEST));
    assert!(found.since.is_some_and(|at| at > before && at <= SystemTime::now()), "{found:?}");
    assert_eq!(holder(b.try_acquire_shared(&resource()).await), found);
    let several = ["a", "invoice/42"].map(named);
    assert_eq!(holder(b.acquire_all(&several).await), found);
    lease.renew().await.unwrap();
    release(lease).await;
    let part = a.acquire_shared(&resource()).await.unwrap();
    let found = holder(b.try_acquire(&resource()).await);
    // A part has no room for a name on MySQL.
    assert!(found.since.is_some() || words::PARTS_HAVE_NAMES, "{found:?}");
    assert!(found.name.as_deref() == words::PARTS_HAVE_NAMES.then_some(LONGEST), "{found:?}");
    part.renew().await.unwrap();
    release(part).await;
    drop(b.try_acquire(&resource()).await.unwrap());
}

#[tokio::test]
async fn of_several_the_error_names_the_one_that_ends_last() {
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
}

/// One that was released early stays closed for its rest, and says who had it.
#[tokio::test]
async fn who_has_released_early_is_told() {
    let place = ready().await;
    let least = builder(&place.pool).lock_at_least_for(LONG).holder(LONGEST).build().unwrap();
    let lease = least.acquire(&resource()).await.unwrap();
    release(lease).await;
    let found = holder(called(&place.other(), "b").try_acquire(&resource()).await);
    assert_eq!(found.name.as_deref(), Some(LONGEST));
}

#[tokio::test]
async fn leases_that_last_are_listed() {
    let place = ready().await;
    let (lock, other) = (called(&place.pool, "lister"), called(&place.pool, "reader"));
    let mut held = Vec::new();
    for name in ["a", "b", "c"] {
        held.push(lock.acquire(&named(name)).await.unwrap());
    }
    let shared = [lock.acquire_shared(&named("d")).await.unwrap(), other.acquire_shared(&named("d")).await.unwrap()];
    release(held.remove(1)).await;
    let all = place.pool.leases(None, 100).await.unwrap();
    let listed: Vec<_> = all.iter().map(|lease| (lease.resource.as_str(), lease.shared)).collect();
    assert_eq!(listed, [("a", false), ("c", false), ("d", true), ("d", true)]);
    assert_eq!((all[0].token, name(&all[0])), (held[0].token(), Some("lister")));
    for lease in &all {
        let left = lease.remaining.unwrap();
        assert!(left > LONG / 2 && left <= LONG, "{lease:?}");
    }
    assert_eq!(all[2].token, shared[0].token());
    if words::PARTS_HAVE_NAMES {
        let mut names = [name(&all[2]), name(&all[3])];
        names.sort_unstable();
        assert_eq!(names, [Some("lister"), Some("reader")]);
    }
    let page = place.pool.leases(Some(&named("a")), 1).await.unwrap();
    let listed: Vec<_> = page.iter().map(|lease| (lease.resource.as_str(), lease.token)).collect();
    assert_eq!(listed, [("c", all[1].token)]);
    assert_eq!(place.pool.leases_of(&named("b")).await.unwrap(), []);
}

/// What the operator sees first.
async fn seen(place: &Place) -> LeaseRecord {
    place.pool.leases_of(&resource()).await.unwrap().remove(0)
}

/// How many leases were ended by force, as the audit has it.
async fn ended_by_force(place: &Place) -> i64 {
    let lines = "SELECT count(*) FROM fencing_audit WHERE from_token = to_token AND lowered_at IS NOT NULL";
    sqlx::query_scalar(lines).fetch_one(&place.pool).await.unwrap()
}

#[tokio::test]
async fn a_lease_that_was_ended_by_force_is_not_renewed() {
    let place = ready().await;
    let (a, b) = (called(&place.pool, "stuck"), called(&place.other(), "next"));
    let lease = a.acquire(&resource()).await.unwrap();
    let found = seen(&place).await;
    assert_eq!(name(&found), Some("stuck"));
    assert!(place.pool.force_release(&found).await.unwrap());
    assert!(!place.pool.force_release(&found).await.unwrap());
    assert!(lease.renew().await.is_err());
    // The lease is over: another renewal would fail as well.
    lost(&lease, Loss::Superseded).await;
    assert_eq!(ended_by_force(&place).await, 1);
    let part = a.try_acquire_shared(&resource()).await.unwrap();
    assert!(part.token() > lease.token());
    assert!(place.pool.force_release(&seen(&place).await).await.unwrap());
    assert!(part.renew().await.is_err());
    lost(&part, Loss::Superseded).await;
    assert_eq!(ended_by_force(&place).await, 2);
    assert!(b.try_acquire(&resource()).await.unwrap().token() > part.token());
}

#[tokio::test]
async fn whoever_came_since_keeps_the_lease() {
    let place = ready().await;
    let (a, b) = (called(&place.pool, "old"), called(&place.other(), "new"));
    let old = a.acquire(&resource()).await.unwrap();
    let found = seen(&place).await;
    release(old).await;
    let new = b.acquire(&resource()).await.unwrap();
    assert!(!place.pool.force_release(&found).await.unwrap());
    new.renew().await.unwrap();
    assert_eq!(holder(a.try_acquire(&resource()).await).name.as_deref(), Some("new"));
    assert_eq!(ended_by_force(&place).await, 0);
}
