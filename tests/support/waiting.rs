//! Waiting for what comes sooner or later, with an end. Futures that are dropped half way.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::process::PATIENCE;

pub async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done().await {
        assert!(Instant::now() < end, "never: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

pub async fn in_time<F: IntoFuture>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("it hangs")
}

/// Polls a future this many times at most, then drops it.
pub async fn polled<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
