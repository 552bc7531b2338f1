use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::Resource;
use futures_util::future::BoxFuture;

use super::health::Health;
use crate::lock::error::{AcquireError, RenewError};
use crate::lock::lease::ticket::LeaseTicket;
use crate::lock::lease::{Lease, LeaseSet, SharedLease};
use crate::lock::settings::BuildError;

/// A lock service, which grants leases. Use it as `Arc<dyn Lock>` if the configuration chooses the back end;
/// [`connect`](crate::lock::connect) returns one.
///
/// # Cancel safety
/// A dropped acquisition releases what it can, and leaves no lock behind for longer than the TTL and the lock-delay; in
/// etcd and ZooKeeper, whose sessions last longer, than 4/3 of both and a second. `health` and `settle` change nothing.
#[auto_impl::auto_impl(Arc)]
pub trait Lock: fmt::Debug + Send + Sync {
    /// Acquires the lease of `resource`. Waits while another client holds it, up to the wait limit.
    ///
    /// # Errors
    /// [`AcquireError`] of the last attempt.
    fn acquire<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<Lease, AcquireError>>;

    /// Acquires the lease of `resource` in one attempt. Waits only for nodes that start for the first time, about a
    /// second, and in the queue of a process with very many concurrent attempts, for at most 30 s and half of the TTL.
    ///
    /// # Errors
    /// [`AcquireError`].
    fn try_acquire<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<Lease, AcquireError>>;

    /// Renews a lease that another process had, by its [`ticket`](Lease::ticket), and returns it: both processes then
    /// have it. It renews only what a majority of the servers still has, so an ended lease stays ended. All processes
    /// of a lease on Redis nodes need one holder name.
    ///
    /// # Errors
    /// [`RenewError::Lost`] if the lease has ended, or the ticket is one of another back end. [`RenewError::Failed`] if
    /// too few servers answered: try again.
    ///
    /// # Cancel safety
    /// If you drop the future, the lease may or may not have been renewed.
    fn resume<'a>(&'a self, ticket: &'a LeaseTicket) -> BoxFuture<'a, Result<Lease, RenewError>>;

    /// Acquires a shared lease of `resource`: a read lock. Waits while another client holds the lock
    /// exclusively, or waits for that, up to the wait limit.
    ///
    /// # Errors
    /// [`AcquireError`] of the last attempt.
    fn acquire_shared<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<SharedLease, AcquireError>>;

    /// Acquires a shared lease of `resource` in one attempt.
    ///
    /// # Errors
    /// [`AcquireError`]: `Held` if another client holds the lock exclusively, or waits for that.
    fn try_acquire_shared<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<SharedLease, AcquireError>>;

    /// Acquires the first resource that is or becomes free within the wait limit. It asks in the order of the list.
    ///
    /// # Errors
    /// [`AcquireError`] of the last attempts: `Held` if all are held, with the time until the first of them may be
    /// free; the fault if an attempt failed; `WrongCount` if the list is empty or longer than 128.
    fn acquire_any<'a>(&'a self, resources: &'a [Resource]) -> BoxFuture<'a, Result<Lease, AcquireError>>;

    /// Acquires one lease of all of the resources, with a token for each. Waits until all are free at once, up to the
    /// wait limit. It holds none of them while it waits, so there are no deadlocks. Duplicates count once.
    ///
    /// # Errors
    /// [`AcquireError`] of the last attempt: `Held` names a held resource; `WrongCount` for none or more than 128.
    fn acquire_all<'a>(&'a self, resources: &'a [Resource]) -> BoxFuture<'a, Result<LeaseSet, AcquireError>>;

    /// Asks the servers for their state.
    fn health(&self) -> BoxFuture<'_, Health>;

    /// Waits until all requests of this client are answered or timed out, a minute at most. Call it as a program ends.
    fn settle(&self) -> BoxFuture<'_, ()>;

    /// Returns the same lock service with another TTL: connections and queues are shared.
    ///
    /// # Errors
    /// [`BuildError`] if the TTL is out of bounds, or too short for other settings.
    fn with_ttl(&self, ttl: Duration) -> Result<Arc<dyn Lock>, BuildError>;

    /// Returns the same lock service with another wait limit of [`acquire`](Lock::acquire).
    ///
    /// # Errors
    /// [`BuildError`] if it is longer than a year.
    fn with_wait(&self, wait: Duration) -> Result<Arc<dyn Lock>, BuildError>;

    /// Returns the same lock service with another minimum hold time, counted from before the
    /// request. An earlier release holds the lock for the rest.
    ///
    /// # Errors
    /// [`BuildError`] if it is longer than the TTL.
    fn with_lock_at_least_for(&self, least: Duration) -> Result<Arc<dyn Lock>, BuildError>;
}
