//! Every future dropped after each number of polls.

use support::polled::polled;

use super::*;

/// More polls than any of these futures takes without a holder in its way.
const MANY: usize = 100;

#[tokio::test]
async fn acquire() {
    let place = ready().await;
    let lock = service(&place.pool);
    for polls in 0..MANY {
        let outcome = polled(lock.acquire(&resource()), polls).await;
        let done = outcome.is_some();
        drop(outcome);
        // At once: what was dropped here is behind it.
        let next = lock.try_acquire(&resource()).await;
        let next = next.unwrap_or_else(|error| panic!("{polls} polls: {error}"));
        assert_eq!(next.release().await, Ok(Released::Released), "{polls} polls");
        if done {
            assert!(polls > 1, "nothing was ever dropped half way");
            return;
        }
    }
    panic!("it never ends");
}

#[tokio::test]
async fn acquire_with_an_answer_on_its_way() {
    let place = ready().await;
    let (lock, other) = (service(&place.pool), service(&place.other()));
    for micros in (0..4000).step_by(200) {
        let resource = resource();
        let late = tokio::time::timeout(Duration::from_micros(micros), lock.acquire(&resource));
        drop(late.await);
        // Another process gets it within its patience, which is below the TTL.
        other.acquire(&resource).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn acquire_behind_a_holder() {
    let place = ready().await;
    let (lock, other) = (service(&place.pool), service(&place.other()));
    for polls in 0..8 {
        let holder = other.acquire(&resource()).await.unwrap();
        assert!(polled(lock.acquire(&resource()), polls).await.is_none());
        holder.release().await.unwrap();
        lock.acquire(&resource()).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn release() {
    let place = ready().await;
    let lock = service(&place.pool);
    for polls in 0..MANY {
        let lease = lock.try_acquire(&resource()).await.unwrap();
        if polled(lease.release(), polls).await.is_some() {
            assert!(polls > 1, "nothing was ever dropped half way");
            return;
        }
        drop(lock.try_acquire(&resource()).await.unwrap());
    }
    panic!("it never ends");
}

#[test]
fn a_runtime_that_ends_takes_nothing_along() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let (lease, attempt, place) = runtime().block_on(async {
        let place = ready().await;
        let lock = service(&place.pool);
        let lease = lock.acquire(&resource()).await.unwrap();
        let attempt = Box::pin(async move { lock.acquire(&resource()).await.map(drop) });
        let mut attempt = attempt as std::pin::Pin<Box<dyn Future<Output = _>>>;
        assert!(polled(&mut attempt, 2).await.is_none());
        (lease, attempt, place)
    });
    // No runtime: nothing panics, and nothing can be sent.
    drop(attempt);
    drop(lease);
    runtime().block_on(async {
        let other = place.other();
        held(service(&other).try_acquire(&resource()).await);
    });
    std::mem::forget(place);
}
