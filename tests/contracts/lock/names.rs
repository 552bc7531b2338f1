use std::time::SystemTime;

use super::*;

/// The name of the holder that suites ask for: as long as one may be.
pub const ONE: &str = "billing-7.payments.europe-west-1.internal.example.com:4294967295";

/// Checks that who finds a lock held is told by whom, and since when. Of parts some back ends keep no name.
pub async fn names_contract(lock: &dyn Lock, other: &dyn Lock, part: Option<&str>) {
    let several = ["named/1", "named/2"].map(resource);
    let [_, resource] = &several;
    let brief = other.with_wait(Duration::ZERO).unwrap();
    let before = SystemTime::now() - Duration::from_secs(1);
    let lease = acquire(lock, resource).await;
    let found = support::lease::holder(other.try_acquire(resource).await);
    assert_eq!(found.name.as_deref(), Some(ONE), "the holder of what is held");
    assert!(found.since.is_some_and(|at| at > before && at <= SystemTime::now()), "since when: {found:?}");
    for again in [
        support::lease::holder(lock.try_acquire(resource).await),
        support::lease::holder(other.try_acquire_shared(resource).await),
        support::lease::holder(brief.acquire_all(&several).await),
    ] {
        assert_eq!(again, found, "the holder of what is held, in another mode");
    }
    // Servers compare the whole of what they have written.
    lease.renew().await.unwrap();
    release(lease).await;
    let all = lock.acquire_all(&several).await.unwrap();
    let found = support::lease::holder(other.try_acquire(resource).await);
    assert_eq!(found.name.as_deref(), Some(ONE), "the holder of several");
    all.renew().await.unwrap();
    release(all).await;
    let shared = share(lock, resource).await;
    let found = support::lease::holder(other.try_acquire(resource).await);
    assert_eq!(found.name.as_deref(), part, "the holder of a part");
    assert!(found.since.is_some() || part.is_none(), "since when one has a part: {found:?}");
    shared.renew().await.unwrap();
    release(shared).await;
    release(acquire(other, resource).await).await;
}
