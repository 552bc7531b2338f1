use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{NonEmpty, Released, Renewed};
use futures_util::future::BoxFuture;

use super::state::LeaseState;
use crate::lock::error::{NodeCause, ReleaseError};
use crate::sequencer::Sequencer;
use crate::time::Time;

/// The result of a granted attempt.
pub struct Grant {
    pub(crate) locks: NonEmpty<Sequencer>,
    pub(crate) deadline: Time,
    pub(crate) held: Arc<dyn HeldLock>,
}

/// The result of a release that was sent. Dropping it takes nothing back.
pub type SentRelease = BoxFuture<'static, Result<Released, ReleaseError>>;

/// The locks of one lease, as the lease sees them.
pub trait HeldLock: Send + Sync + 'static {
    /// Tries once to renew, or says why not. With `resumes` the lease may have ended: it renews what a majority has.
    fn renew(&self, resumes: bool) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>>;

    /// Notes that another process may resume the lease, and returns the owner that it needs; `None` if no process can.
    fn ticket_owner(&self) -> Option<String> {
        None
    }

    /// Stops renewing, and sends the release everywhere at once. The lock stays held for the `rest`. If it is
    /// `handed_over` to the next caller of this process, the servers notify no waiters elsewhere.
    fn release(self: Arc<Self>, rest: Duration, handed_over: bool) -> SentRelease;

    /// Reports whether a release that was sent comes before every attempt that is made later by the
    /// same client. Then no call has to wait for its answer, and the lock may be handed over.
    fn releases_in_order(&self) -> bool {
        false
    }

    /// Hands the state of the lease to the back end, which closes it if it learns of the end before a renewal does.
    fn watched(&self, _state: &Arc<LeaseState>) {}
}
