//! The port behind every lock service. Its back ends are Redlock's nodes, the table in a database, an etcd cluster and
//! a ZooKeeper ensemble. It is private to the crate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{NonEmpty, Renewed, Resource};
use futures_util::future::BoxFuture;

use super::lease::state::LeaseState;
use crate::sequencer::Sequencer;
use crate::time::Time;

pub(super) use super::error::{AcquireError, NodeCause};
pub(super) use super::lease::ticket::LeaseTicket;
pub(super) use super::service::health::Health;
pub(super) use super::settings::Settings;
pub(super) use super::wait::backoff::draining;
pub(super) use super::wait::wanted::Ask;

/// A back end: it makes attempts and reports its health.
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
    fn resumed(
        &self,
        ticket: &LeaseTicket,
        settings: &Settings,
    ) -> impl Future<Output = Result<Option<Arc<dyn HeldLock>>, NodeCause>> + Send;

    /// Asks every server for its state, within the budget.
    fn health(&self, settings: &Settings) -> impl Future<Output = Health> + Send;

    /// Learns that locks with these settings are going to be acquired.
    fn prepare(&self, _settings: &Settings) {}
}

/// The result of a granted attempt.
pub struct Grant {
    pub(crate) locks: NonEmpty<Sequencer>,
    /// The time before the request.
    pub(crate) asked: Time,
    pub(crate) deadline: Time,
    pub(crate) held: Arc<dyn HeldLock>,
}

/// A release that was sent: whether all locks were held until then, or why that is in doubt. Dropping it takes nothing
/// back.
pub type SentRelease = BoxFuture<'static, Result<bool, Vec<NodeCause>>>;

/// The locks of one lease, as the lease sees them.
pub trait HeldLock: Send + Sync + 'static {
    /// Tries once to renew, or says why it could not. With `resumes` it does not know whether the lease has ended, and
    /// renews what a majority has still.
    fn renew(&self, resumes: bool) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>>;

    /// Returns the owner that another process needs to resume the lease. From then on the back end expects that process
    /// to have renewed, moved or released the locks.
    fn hand_out(&self) -> String;

    /// Stops renewing, and sends the release everywhere at once. The lock stays held for the `rest`. If it is
    /// `handed_over` to the next caller of this process, the servers notify no waiters elsewhere.
    fn release(self: Arc<Self>, rest: Duration, handed_over: bool) -> SentRelease;

    /// Reports whether a release that was sent comes before every attempt that is made later by the
    /// same client. Then no call has to wait for its answer, and the lock may be handed over.
    fn releases_in_order(&self) -> bool {
        false
    }

    /// Hands the state of the lease to the back end, which closes it if it learns of the end before a renewal does.
    fn attach_state(&self, _state: &Arc<LeaseState>) {}
}
