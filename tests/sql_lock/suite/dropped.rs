//! Futures dropped half way. The contract of a lock drops the others, after each number of polls.

use futures_util::FutureExt;
use support::waiting::polled;

use super::*;

/// More polls than an acquisition takes without a holder in its way.
const MANY: usize = 100;

#[tokio::test]
async fn the_next_attempt_comes_behind_one_that_was_dropped() {
    let place = ready().await;
    let lock = service(&place.pool);
    for polls in 0..MANY {
        let done = polled(lock.acquire(&resource()), polls).await.is_some();
        // At once: what was dropped here is behind it.
        let next = lock.try_acquire(&resource()).await;
        release(next.unwrap_or_else(|error| panic!("{polls} polls: {error}"))).await;
        if done {
            assert!(polls > 1, "nothing was ever dropped half way");
            return;
        }
    }
    panic!("it never ends");
}

/// As a caller does that bounds its release. Whoever waits here does not wait for its next poll, which is hours away.
#[tokio::test]
async fn a_release_that_nobody_waits_for_wakes_the_next_one() {
    let place = ready().await;
    let hours = Duration::from_secs(7200);
    let lock = builder(&place.pool).retry_delay(hours / 2).wait(hours).build().unwrap();
    let acquires = || {
        let lock = lock.clone();
        async move { lock.acquire(&resource()).await.unwrap() }
    };
    let mut lease = acquires().await;
    for _ in 0..5 {
        let waiter = tokio::spawn(acquires());
        // It has asked, and waits.
        sleep(Duration::from_millis(100)).await;
        assert!(lease.release().now_or_never().is_none(), "it takes a statement");
        lease = timeout(LONG, waiter).await.unwrap().unwrap();
        assert!(lease.release().now_or_never().is_none(), "it takes a statement");
        // Nobody has waited for that one.
        lease = timeout(LONG, acquires()).await.unwrap();
    }
}

#[test]
fn a_runtime_that_ends_takes_nothing_along() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let (lease, attempt, place) = runtime().block_on(async {
        let place = ready().await;
        let lock = service(&place.pool);
        let lease = lock.acquire(&resource()).await.unwrap();
        let mut attempt = Box::pin(async move { lock.acquire(&resource()).await.map(drop) });
        assert!(polled(&mut attempt, 2).await.is_none());
        (lease, attempt, place)
    });
    // No runtime: nothing panics, and nothing can be sent.
    drop(attempt);
    drop(lease);
    runtime().block_on(async {
        held(service(&place.other()).try_acquire(&resource()).await);
    });
    std::mem::forget(place);
}
