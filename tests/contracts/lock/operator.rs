use std::time::SystemTime;

use fencing::lock::Operator;

use super::*;

/// The name of the holder that suites ask for: as long as one may be.
pub const ONE: &str = "billing-7.payments.europe-west-1.internal.example.com:4294967295";

/// Checks what operators see of the leases of a lock service, and end by force. The name of its holder is [`ONE`].
pub async fn operator_contract(lock: &dyn Lock, operator: &dyn Operator) {
    listed(lock, operator).await;
    ended(lock, operator).await;
    shared(lock, operator).await;
}

/// Those that last, by the names of their resources, page by page.
async fn listed(lock: &dyn Lock, operator: &dyn Operator) {
    let [before, a, b, c, d] = ["o", "o/a", "o/b", "o/b ä", "o/c"].map(resource);
    let leases = [acquire(lock, &a).await, acquire(lock, &c).await];
    let parts = [share(lock, &d).await, share(lock, &d).await];
    release(acquire(lock, &b).await).await;
    let found = operator.leases(Some(&before), 3).await.unwrap();
    let mut listed: Vec<_> = found.iter().map(|it| (&it.resource, it.token, it.shared)).collect();
    let mut last: Vec<_> = parts.iter().map(|part| (&d, part.token(), true)).collect();
    last.sort();
    listed[2..].sort();
    let alone = [(&a, leases[0].token(), false), (&c, leases[1].token(), false)];
    assert_eq!(listed, [&alone[..], &last].concat(), "the leases that last");
    for lease in &found[..2] {
        let name = lease.holder.as_ref().and_then(|holder| holder.name.as_deref());
        assert_eq!(name, Some(ONE), "the holder of {lease:?}");
    }
    // Some servers do not say it.
    assert!(found.iter().all(|it| it.remaining.is_none_or(|left| !left.is_zero())), "what is left: {found:?}");
    for (after, next) in [(&before, &a), (&a, &c)] {
        let page = operator.leases(Some(after), 1).await.unwrap();
        assert!(page.len() == 1 && page[0].resource == *next, "one after {after}: {page:?}");
    }
    assert_eq!(operator.leases_of(&b).await.unwrap(), [], "the leases of what was released");
    join_all(leases.map(release)).await;
    join_all(parts.map(release)).await;
}

/// One that was seen is ended, and none that came since: neither an operator nor the holder of before touches that.
async fn ended(lock: &dyn Lock, operator: &dyn Operator) {
    let resource = &resource("o/ended");
    let lease = acquire(lock, resource).await;
    let seen = operator.leases_of(resource).await.unwrap().remove(0);
    let force = async || operator.force_release(&seen).await.unwrap();
    assert!(force().await, "release by force {seen:?}");
    assert!(!force().await, "release by force what was ended: {seen:?}");
    over(&lease).await;
    let next = acquire(lock, resource).await;
    assert!(next.token() > lease.token(), "acquire after {lease:?}: {next:?}");
    drop(lease);
    lock.settle().await;
    assert!(!force().await, "release by force what came before {next:?}");
    next.renew().await.unwrap();
    let seen = operator.leases_of(resource).await.unwrap().remove(0);
    release(next).await;
    let last = acquire(lock, resource).await;
    assert!(!operator.force_release(&seen).await.unwrap(), "release by force what was released before {last:?}");
    last.renew().await.unwrap();
    release(last).await;
}

/// Of those that several share, all are.
async fn shared(lock: &dyn Lock, operator: &dyn Operator) {
    let resource = &resource("o/shared");
    let parts = [share(lock, resource).await, share(lock, resource).await];
    let seen = operator.leases_of(resource).await.unwrap();
    assert!(seen.len() == 2 && seen.iter().all(|it| it.shared), "the parts: {seen:?}");
    assert!(operator.force_release(&seen[0]).await.unwrap(), "release by force {seen:?}");
    over(&parts[0]).await;
    over(&parts[1]).await;
    let next = acquire(lock, resource).await;
    assert!(parts.iter().all(|part| next.token() > part.token()), "acquire after {parts:?}: {next:?}");
    release(next).await;
}

/// Checks that the holder learns of the end at its renewal.
async fn over<K>(lease: &Lease<K>) {
    let renewed = lease.renew().await;
    assert!(renewed.is_err(), "renew what was ended by force: {renewed:?}");
    assert_eq!(answered("the end", lease.lost()).await, Loss::Superseded, "the loss of {lease:?}");
}

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
