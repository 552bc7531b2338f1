use std::sync::Arc;

use super::*;

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
