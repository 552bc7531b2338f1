//! What the tests of every database share.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use fencing::fence::Stale;
use fencing::sql::AdmitError;
use fencing::{Resource, Token};

pub fn resource() -> Resource {
    Resource::new("files/a").unwrap()
}

pub fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

/// The refusal, if it is one; anything but a refusal fails the test.
pub fn stale<T>(result: Result<T, AdmitError>) -> Stale {
    match result {
        Err(AdmitError::Stale(stale)) => stale,
        Err(error) => panic!("not stale: {error:?}"),
        Ok(_) => panic!("admitted"),
    }
}

#[track_caller]
pub fn retryable<T>(result: Result<T, AdmitError>) {
    match result {
        Err(AdmitError::Retryable(_)) => {}
        Err(error) => panic!("not retryable: {error:?}"),
        Ok(_) => panic!("admitted"),
    }
}

/// A random number below `limit`.
pub fn below(limit: u64) -> u64 {
    RandomState::new().hash_one(0) % limit
}

/// Lets others go first, for a random while.
pub async fn pause() {
    tokio::time::sleep(Duration::from_micros(below(3000))).await;
}

/// Polls a future this often at most, and drops it.
pub async fn poll<F: Future>(polls: u64, future: F) {
    let mut future = pin!(future);
    let mut left = polls;
    let enough = std::future::poll_fn(|context| {
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Pending if left > 0 => Poll::Pending,
            _ => Poll::Ready(()),
        }
    });
    enough.await;
}
