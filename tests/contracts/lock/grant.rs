use std::sync::Arc;

use fencing::Sequencer;

use super::*;
use crate::names;

pub async fn tokens_grow(lock: &dyn Lock) {
    let resource = resource("tokens");
    let mut last: Option<Token> = None;
    for _ in 0..20 {
        let lease = acquire(lock, &resource).await;
        let token = lease.token();
        assert!(Some(token) > last, "acquire after {last:?}: {token:?}");
        let pair = Sequencer::new(resource.clone(), token);
        assert_eq!(lease.sequencer(), pair, "the sequencer of a lease");
        last = Some(token);
        release(lease).await;
    }
}

pub async fn one_holder(lock: &dyn Lock, other: &dyn Lock) {
    let resource = resource("held");
    let lease = acquire(lock, &resource).await;
    assert_eq!(lease.resource(), &resource, "the resource of a lease");
    let left = lease.valid_for();
    assert!(!left.is_zero(), "the validity of a lease: {left:?}");
    for asked in [lock, other, lock] {
        refused(&asked.try_acquire(&resource).await, &resource, "try_acquire what is held");
    }
    lease.renew().await.unwrap();
    release(lease).await
}

pub async fn apart(lock: &dyn Lock) {
    let mut leases = Vec::new();
    for name in names() {
        let lease = lock.try_acquire(&name).await;
        leases.push(lease.unwrap_or_else(|error| panic!("try_acquire {name} while others are held: {error:?}")));
    }
    join_all(leases.into_iter().map(release)).await;
}

pub async fn waits(lock: &dyn Lock, other: &dyn Lock) {
    let resource = resource("wait");
    let first = acquire(lock, &resource).await;
    let token = first.token();
    let lease = after(release(first), acquire(other, &resource)).await;
    assert!(lease.token() > token, "acquire after {token}: {lease:?}");
    release(lease).await
}

/// Runs many clients at once: never two hold the lock, and tokens grow in the order of the grants.
pub async fn concurrent(locks: [&dyn Lock; 2]) {
    let (resource, inside) = (resource("concurrent"), Inside::default());
    let client = async |number: usize| {
        let lease = acquire(locks[number % 2], &resource).await;
        inside.visit(false, lease.token()).await;
        release(lease).await
    };
    join_all((0..12).map(client)).await;
}

/// Checks that clients which wait come in their order: each hears of the one ahead of it.
///
/// Build those that are `slow` so that they ask of themselves only after many minutes. `places` counts those who wait.
pub async fn line_contract(
    lock: &dyn Lock,
    slow: impl Fn() -> Arc<dyn Lock>,
    places: impl AsyncFn(&Resource) -> usize,
) {
    let resource = resource("line");
    let first = acquire(lock, &resource).await;
    let (mut last, mut waiting) = (first.token(), Vec::new());
    for number in 1..=3 {
        let (lock, name) = (slow(), resource.clone());
        waiting.push(tokio::spawn(async move {
            let lease = lock.acquire(&name).await.unwrap();
            let token = lease.token();
            release(lease).await;
            token
        }));
        until("it has a place", async || places(&resource).await == number).await;
    }
    release(first).await;
    for waiter in waiting {
        let token = answered("who is next", waiter).await.unwrap();
        assert!(token > last, "the next in the line after {last}: {token}");
        last = token;
    }
    until("all have left", async || places(&resource).await == 0).await;
}
