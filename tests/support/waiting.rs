//! Waiting for what comes sooner or later, with an end.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::process::PATIENCE;

/// Asks again and again until it is so.
pub async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done().await {
        assert!(Instant::now() < end, "never: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for a future.
pub async fn in_time<F: IntoFuture>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("it hangs")
}
