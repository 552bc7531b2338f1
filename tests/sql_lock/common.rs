//! What the tests of every database share.

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
