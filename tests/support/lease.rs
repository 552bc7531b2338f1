//! A lock by name, tokens, and what comes of an attempt to get it.

use std::fmt::Debug;

use fencing::lock::{AcquireError, Fault, Holder, Released};
use fencing::{Lease, Resource, Token};

pub fn named(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

pub fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

/// The one that most tests lock.
pub fn resource() -> Resource {
    named("invoice/42")
}

#[track_caller]
pub fn assert_held<L: Debug>(found: Result<L, AcquireError>) {
    assert!(matches!(found, Err(AcquireError::Held { .. })), "{found:?}");
}

/// The fault of the one service that keeps the leases; anything else fails the test.
#[track_caller]
pub fn fault<L: Debug>(found: Result<L, AcquireError>) -> Fault {
    let Err(AcquireError::Unavailable { cause, .. }) = found else { panic!("no fault: {found:?}") };
    cause.cause
}

/// Who has it, as the error says.
#[track_caller]
pub fn holder<L: Debug>(outcome: Result<L, AcquireError>) -> Holder {
    let Err(AcquireError::Held { holder: Some(holder), .. }) = outcome else { panic!("nobody is named: {outcome:?}") };
    holder
}

/// Releases a lease that lasts.
pub async fn release<K>(lease: Lease<K>) {
    assert_eq!(lease.release().await, Ok(Released::Released));
}
