//! What the back ends on engines that count every change share: etcd and ZooKeeper.

pub(super) mod builder;
pub(super) mod line;
pub(super) mod sessions;
pub(super) mod token_base;

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Resource};
use tokio_util::task::TaskTracker;

use super::error::{AcquireError, NodeCause};
use super::operator::Operator;
use super::settings::{BuildError, Settings};
use crate::holder::Holder;
use line::PlaceReports;

/// The servers of an engine, as all sessions of one lock service share them. They have an operator's functions, too.
pub trait Engine: Operator + Display + Sized + 'static {
    type Session: EngineSession;

    /// Time limit to open a session, in budgets.
    const OPENING_BUDGETS: u32;

    /// Reads the URL. It connects with the first request.
    fn new(url: &str, settings: &Settings) -> Result<Self, BuildError>;

    /// The requests in flight, and what is in doubt: `settle` waits for them.
    fn outstanding(&self) -> &TaskTracker;

    /// Starts a session for locks with these settings.
    fn start(self: Arc<Self>, settings: Settings) -> impl Future<Output = Result<Arc<Self::Session>, Fault>> + Send;

    fn cause(&self, cause: Fault) -> NodeCause {
        NodeCause { node: self.to_string(), cause }
    }
}

/// All leases of one lock service on one runtime, with one TTL and lock-delay, are on one session.
pub trait EngineSession: Send + Sync + 'static {
    /// Returns whether the session is over. It may end by itself.
    fn has_ended(&self) -> bool;

    /// Returns whether the servers owe it the answer to an attempt whose time is over.
    fn is_late(&self) -> bool {
        false
    }

    /// Takes the last place in the line of clients that wait for a lock, and keeps it until the future is dropped. It
    /// reports whenever the place is the first and the lock is free, and ends only with a fault. Each client watches the
    /// one ahead of it, so that a release wakes only the first ("herd effect", ZooKeeper recipes).
    fn keep_place(
        self: Arc<Self>,
        resource: Resource,
        reports: PlaceReports,
    ) -> impl Future<Output = Result<Infallible, Fault>> + Send;
}

/// Who holds a lock, as the engine has it.
#[derive(Debug)]
pub(super) struct FoundHolder {
    pub(super) resource: Resource,
    pub(super) holder: Option<Holder>,
    pub(super) shared: bool,
    /// For how long the lock is closed at most.
    pub(super) left: Duration,
}

impl From<FoundHolder> for AcquireError {
    fn from(FoundHolder { resource, holder, left: retry_after, .. }: FoundHolder) -> AcquireError {
        AcquireError::Held { resource, retry_after, holder }
    }
}
