use super::*;
use futures_util::FutureExt;
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn those_of_one_process_come_in_order() {
    let place = ready().await;
    let lock = service(&place.pool);
    let holder = lock.acquire(&resource()).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for number in 0..5 {
        let (lock, order) = (lock.clone(), Arc::clone(&order));
        waiting.push(tokio::spawn(async move {
            let lease = lock.acquire(&resource()).await.unwrap();
            order.lock().unwrap().push((number, lease.token()));
            lease.release().await.unwrap();
        }));
        tokio::task::yield_now().await;
    }
    holder.release().await.unwrap();
    for task in waiting {
        task.await.unwrap();
    }
    let order = order.lock().unwrap();
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(order.len(), 5);
}

#[tokio::test]
async fn a_wait_has_an_end() {
    let place = ready().await;
    let lock = service(&place.pool);
    let lease = lock.acquire(&resource()).await.unwrap();
    let hasty = lock.with_wait(Duration::from_millis(100)).unwrap();
    // One waits for the holder, one behind it in the queue.
    let resource = resource();
    let (one, two) = tokio::join!(hasty.acquire(&resource), hasty.acquire(&resource));
    assert!(held(one) <= LONG);
    assert!(held(two) <= LONG);
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_closed_pool_is_a_fault() {
    let place = ready().await;
    let lock = service(&place.pool);
    let lease = lock.acquire(&resource()).await.unwrap();
    place.pool.close().await;
    let error = lock.try_acquire(&resource()).await.unwrap_err();
    assert!(matches!(error, AcquireError::Unavailable { .. }), "{error:?}");
    let error = lease.release().await.unwrap_err();
    assert!(error.to_string().contains("unreachable: the pool is closed"), "{error}");
}

/// As a caller does that bounds its release. Whoever waits here does not wait for its next poll, which is hours away.
#[tokio::test]
async fn a_release_that_nobody_waits_for_wakes_the_next_one() {
    let place = ready().await;
    let service = builder(&place.pool).retry_delay(Duration::from_secs(3600)).build().unwrap();
    let service = service.with_wait(Duration::from_secs(7200)).unwrap();
    let patience = Duration::from_secs(60);
    let mut lease = service.acquire(&resource()).await.unwrap();
    for _ in 0..5 {
        let waiter = tokio::spawn({
            let service = service.clone();
            async move { service.acquire(&resource()).await.unwrap() }
        });
        // It has asked, and waits.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(lease.release().now_or_never().is_none(), "it takes a statement");
        lease = tokio::time::timeout(patience, waiter).await.unwrap().unwrap();
        assert!(lease.release().now_or_never().is_none(), "it takes a statement");
        // Nobody has waited for that one.
        lease =
            tokio::time::timeout(patience, service.acquire(&resource())).await.unwrap().unwrap();
    }
}
