use std::fmt;
use std::sync::Arc;

use fencing_protocol::{NonEmpty, Resource};

pub(in crate::lock) use super::health::Health;
pub(in crate::lock) use crate::lock::error::{AcquireError, NodeCause, ReleaseError};
pub(in crate::lock) use crate::lock::lease::held_lock::{Grant, HeldLock, SentRelease};
pub(in crate::lock) use crate::lock::lease::ticket::LeaseTicket;
pub(in crate::lock) use crate::lock::settings::Settings;
pub(in crate::lock) use crate::lock::wait::backoff::draining;
pub(in crate::lock) use crate::lock::wait::wanted::Ask;

/// The port behind every lock service: it makes attempts and reports its health. Its back ends are Redlock's nodes, the
/// table in a database, an etcd cluster and a ZooKeeper ensemble. It is private to the crate.
pub trait LockBackend: fmt::Debug + Clone + Send + Sync + 'static {
    /// Makes one attempt to acquire all of these, which are different. The locks come in their order. An
    /// attempt that is dropped, or not granted, releases what it got.
    fn attempt(
        &self,
        wanted: &NonEmpty<Resource>,
        ask: Ask,
        settings: &Settings,
    ) -> impl Future<Output = Result<Grant, AcquireError>> + Send;

    /// Returns the locks of a lease that another process had. `None` if the ticket is not one of this back end.
    fn held(
        &self,
        ticket: &LeaseTicket,
        settings: &Settings,
    ) -> impl Future<Output = Result<Option<Arc<dyn HeldLock>>, NodeCause>> + Send;

    /// Asks every server for its state, within the budget.
    fn health(&self, settings: &Settings) -> impl Future<Output = Health> + Send;

    /// Learns that locks with these settings are going to be acquired.
    fn prepare(&self, _settings: &Settings) {}
}
