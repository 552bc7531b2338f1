//! What the tests of every database share.

pub use std::time::Duration;

pub use fencing::lock::sql::{SqlLock, SqlLockBuilder};
pub use fencing::lock::{AcquireError, Loss, Released, RenewError};
pub use fencing::{Lease, Resource, Token, sql};
pub use fencing_protocol::Fault;
pub use sqlx::{AssertSqlSafe, Pool};
pub use support::lease::{fault, holder, named, release, resource};
pub use support::place::single;
pub use support::waiting::until;
pub use tokio::time::{sleep, timeout};

/// Longer than any test takes: what is gone was released and has not expired.
pub const LONG: Duration = Duration::from_secs(60);

/// When the lock may be free; anything but `Held` fails the test.
#[track_caller]
pub fn held<K>(outcome: Result<Lease<K>, AcquireError>) -> Duration {
    match outcome {
        Err(AcquireError::Held { retry_after, .. }) => retry_after,
        other => panic!("not held: {other:?}"),
    }
}

/// The holder is notified of this loss.
pub async fn lost<K>(lease: &Lease<K>, loss: Loss) {
    assert_eq!(timeout(LONG / 2, lease.lost()).await, Ok(loss));
}
