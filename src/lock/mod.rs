//! The client's side: a lease over N nodes, or in a database, with a token that never goes
//! backwards.
//!
//! ```no_run
//! # async fn work() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use fencing::Resource;
//! use fencing::lock::{self, Lock};
//!
//! // redis://a,b,c or postgres://, mysql://, sqlite: and memory:
//! let lock: Arc<dyn Lock> = lock::connect("memory:").await?;
//! let invoice = Resource::new("invoice/42")?;
//! let lease = lock.acquire(&invoice).await?;
//! lease.run(async { /* give lease.token() to every write */ }).await?;
//! lease.release().await?;
//! # Ok(())
//! # }
//! ```

mod backend;
mod connect;
mod counted;
mod error;
mod health;
mod held_lock;
mod holder;
mod holding;
mod lease;
mod lease_state;
pub mod redlock;
mod service;
mod settings;
mod sleep;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub mod sql;
mod wait;
mod watchdog;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::Resource;
use futures_util::future::BoxFuture;

pub use connect::{ConnectError, ConnectOptions, connect};
pub use error::{AcquireError, LeaseLost, NodeCause, ReleaseError, Released, RenewError};
pub use fencing_protocol::Fault;
pub use health::{Health, NodeHealth};
pub use holder::Holder;
pub use lease::{Exclusive, Kind, Lease, LeaseSet, OfOne, Several, Shared, SharedLease};
pub use lease_state::Loss;
pub use service::LockService;
pub use settings::BuildError;
pub use wait::ReleaseListener;

/// A lock service: what hands out leases. Use it as `Arc<dyn Lock>` where the choice of back end
/// is a matter of configuration; [`connect`] gives you one.
#[auto_impl::auto_impl(Arc)]
pub trait Lock: fmt::Debug + Send + Sync {
    /// Acquires the lease of `resource`. Waits while another client holds it, up to the wait
    /// limit.
    ///
    /// # Errors
    /// [`AcquireError`] of the last attempt.
    ///
    /// # Cancel safety
    /// If you drop the future, it releases what it can, and leaves no lock behind for longer than the TTL and
    /// the lock-delay.
    fn acquire<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<Lease, AcquireError>>;

    /// Acquires the lease of `resource` in one attempt. Waits only for nodes that start for the
    /// first time, about a second.
    ///
    /// # Errors
    /// [`AcquireError`].
    ///
    /// # Cancel safety
    /// As for [`acquire`](Lock::acquire).
    fn try_acquire<'a>(
        &'a self,
        resource: &'a Resource,
    ) -> BoxFuture<'a, Result<Lease, AcquireError>>;

    /// Acquires a part in the lock of `resource`, which others may share. Waits while somebody holds the
    /// lock alone, or waits to hold it alone, up to the wait limit.
    ///
    /// # Errors
    /// [`AcquireError`] of the last attempt.
    ///
    /// # Cancel safety
    /// As for [`acquire`](Lock::acquire).
    fn acquire_shared<'a>(
        &'a self,
        resource: &'a Resource,
    ) -> BoxFuture<'a, Result<SharedLease, AcquireError>>;

    /// Acquires a part in the lock of `resource`, which others may share, in one attempt.
    ///
    /// # Errors
    /// [`AcquireError`]: `Held` if another client holds the lock alone, or waits to hold it alone.
    ///
    /// # Cancel safety
    /// As for [`acquire`](Lock::acquire).
    fn try_acquire_shared<'a>(
        &'a self,
        resource: &'a Resource,
    ) -> BoxFuture<'a, Result<SharedLease, AcquireError>>;

    /// Acquires the lease of the first of the resources that is free, or becomes free within the wait
    /// limit. It asks for each in its order.
    ///
    /// # Errors
    /// [`AcquireError`]: [`WrongCount`](AcquireError::WrongCount) if the list is empty or longer than
    /// 128.
    ///
    /// # Cancel safety
    /// As for [`acquire`](Lock::acquire).
    fn acquire_any<'a>(
        &'a self,
        resources: &'a [Resource],
    ) -> BoxFuture<'a, Result<Lease, AcquireError>>;

    /// Acquires one lease of all of the resources, with a token for each. Waits until all are free at
    /// one time, up to the wait limit, and holds none of them meanwhile: clients never wait for each
    /// other. A resource that is named twice counts once.
    ///
    /// # Errors
    /// [`AcquireError`] of the last attempt: [`WrongCount`](AcquireError::WrongCount) if the list is
    /// empty or has more than 128 resources.
    ///
    /// # Cancel safety
    /// As for [`acquire`](Lock::acquire).
    fn acquire_all<'a>(
        &'a self,
        resources: &'a [Resource],
    ) -> BoxFuture<'a, Result<LeaseSet, AcquireError>>;

    /// Asks the servers how they stand.
    ///
    /// # Cancel safety
    /// It changes nothing.
    fn health(&self) -> BoxFuture<'_, Health>;

    /// Waits until everything that this client has sent is answered or was given up, for a minute
    /// at most. Call it at the end of a program.
    ///
    /// # Cancel safety
    /// It changes nothing.
    fn settle(&self) -> BoxFuture<'_, ()>;

    /// Returns the same lock service with another TTL.
    ///
    /// # Errors
    /// [`BuildError`] if the TTL is out of bounds, or too short for other settings.
    fn with_ttl(&self, ttl: Duration) -> Result<Arc<dyn Lock>, BuildError>;

    /// Returns the same lock service with another wait limit of [`acquire`](Lock::acquire).
    ///
    /// # Errors
    /// [`BuildError`] if it is longer than a year.
    fn with_wait(&self, wait: Duration) -> Result<Arc<dyn Lock>, BuildError>;

    /// Returns the same lock service with another least time for which a lock stays closed, counted
    /// from before it was asked for. A release before that time is over leaves the lock in place
    /// for the rest.
    ///
    /// # Errors
    /// [`BuildError`] if it is longer than the TTL.
    fn with_lock_at_least_for(&self, least: Duration) -> Result<Arc<dyn Lock>, BuildError>;
}
