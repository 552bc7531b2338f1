//! What the tests of every database share.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use fencing::lock::AcquireError;
use fencing::{Lease, Resource};
use fencing_protocol::Fault;

/// Longer than any test takes: what is gone was released and has not expired.
pub const LONG: Duration = Duration::from_secs(60);

pub fn resource() -> Resource {
    Resource::new("invoice/42").unwrap()
}

/// When the lock may be free; anything but `Held` fails the test.
#[track_caller]
pub fn held(outcome: Result<Lease, AcquireError>) -> Duration {
    match outcome {
        Err(AcquireError::Held { retry_after, .. }) => retry_after,
        Err(error) => panic!("not held: {error:?}"),
        Ok(lease) => panic!("granted: {lease:?}"),
    }
}

/// The database's fault; anything else fails the test.
#[track_caller]
pub fn fault(outcome: Result<Lease, AcquireError>) -> Fault {
    match outcome {
        Err(AcquireError::Unavailable { cause, .. }) => cause.cause,
        Err(error) => panic!("no fault: {error:?}"),
        Ok(lease) => panic!("granted: {lease:?}"),
    }
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
