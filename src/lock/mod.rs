//! Client side: a lease over N nodes, or in a database, with a token that never goes
//! backwards.

mod attempt;
mod error;
mod health;
mod held_lock;
mod lease;
mod queues;
pub mod redlock;
mod settings;
mod sleep;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub mod sql;
mod watchdog;

use std::future::Future;

use crate::resource::Resource;

pub use crate::protocol::Fault;
pub use error::{AcquireError, NodeCause, ReleaseError, Released};
pub use health::{Health, NodeHealth};
pub use lease::{Lease, LeaseLost, Loss};
pub use settings::BuildError;

/// What hands out leases.
pub trait Lock: Send + Sync {
    /// Acquires the lease of `resource`, waiting while another holds it, up to the wait
    /// limit.
    ///
    /// # Errors
    /// [`AcquireError::Held`] and [`AcquireError::NoQuorum`], as they stood at the end.
    ///
    /// # Cancel safety
    /// Dropped, it leaves no lock behind for longer than the TTL, and releases what it can.
    fn acquire(
        &self,
        resource: &Resource,
    ) -> impl Future<Output = Result<Lease, AcquireError>> + Send;

    /// The same, in one attempt.
    ///
    /// # Errors
    /// As for [`acquire`](Lock::acquire).
    ///
    /// # Cancel safety
    /// As for [`acquire`](Lock::acquire).
    fn try_acquire(
        &self,
        resource: &Resource,
    ) -> impl Future<Output = Result<Lease, AcquireError>> + Send;
}
