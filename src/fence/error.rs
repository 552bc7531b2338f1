use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Resource, Token};
use parking_lot::Mutex;

use super::{NotIssued, Stale};
use crate::log_throttle::LogThrottle;

/// Why a request was not admitted, or why its mark was not raised. In every case, write nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// The fence has seen a newer token. Do not try again: acquire a new lease.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The token was not issued for this resource. It has raised no mark.
    #[error(transparent)]
    NotIssued(#[from] NotIssued),
    /// The lock service could not be asked whether the token was issued. Try again.
    #[error("cannot ask the lock service whether token {presented} of {resource} was issued: {cause}")]
    Unchecked {
        /// The resource of the request.
        resource: Resource,
        /// The presented token.
        presented: Token,
        /// The cause.
        #[source]
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// Requests with an older token did not end in time. Try again.
    #[error(
        "token {presented} of {resource} waited {} ms for a request with token {in_flight} to end; try again",
        .waited.as_millis()
    )]
    Busy {
        /// The resource of the request.
        resource: Resource,
        /// The presented token.
        presented: Token,
        /// The oldest token in flight.
        in_flight: Token,
        /// The fence's limit.
        waited: Duration,
    },
    /// Too many requests with this token already wait for older ones to end. Try again later.
    #[error(
        "token {presented} of {resource} was refused: too many requests wait for a request with token \
         {in_flight} (limit {limit}); try again later"
    )]
    Crowded {
        /// The resource of the request.
        resource: Resource,
        /// The presented token.
        presented: Token,
        /// The oldest token in flight.
        in_flight: Token,
        /// The fence's limit of waiting requests.
        limit: usize,
    },
    /// The marks have no room for another resource, and never forget one to make room. Give them a larger limit.
    #[error("no room for another resource: all {limit} marks are in use; raise their limit")]
    Full {
        /// The limit of resources with a mark.
        limit: usize,
    },
    /// The marks answer, but may have forgotten some: no request passes until an operator has opened them.
    #[error(transparent)]
    Closed(Box<dyn std::error::Error + Send + Sync>),
    /// Requests of an earlier process may still be at work: none passes until the quarantine ends. Try again then.
    #[error("in quarantine for another {} s: requests of an earlier process may still be running", .left.as_secs() + 1)]
    Quarantine {
        /// The time left of the quarantine.
        left: Duration,
    },
    /// The marks did not answer, or refused for now. Try again.
    #[error("high-water marks unreachable: {0}")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The storage of the marks lacks a table or a function. Nothing was written, and a retry does not help.
    #[error("the storage of the high-water marks is not set up: {0}")]
    NotSetUp(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The storage refuses for good: a right is missing, or what it has is not a mark. A retry does not help.
    #[error("the storage refuses: {0}")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No connection of the storage's pool became free in time. Nothing was read or written. Try again.
    #[error("no pool connection became free in time: find what holds the connections, or enlarge the pool: {0}")]
    NoConnection(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A conflict with another transaction: a serialization failure, a deadlock, a wait for a lock. It says nothing
    /// about the token. The transaction was rolled back: run it again. Only a check inside a transaction returns this.
    #[error("conflicting transaction: {0}")]
    Conflict(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The future was not polled inside a tokio runtime, whose timers the fence needs.
    #[error("no tokio runtime: the fence needs its timers; admit requests inside one")]
    NoRuntime,
}

impl FenceError {
    fn label(&self) -> &'static str {
        match self {
            FenceError::Stale(_) => "stale",
            FenceError::NotIssued(_) => "not_issued",
            FenceError::Unchecked { .. } => "unchecked",
            FenceError::Busy { .. } => "busy",
            FenceError::Crowded { .. } => "crowded",
            FenceError::Full { .. } => "full",
            FenceError::Closed(_) => "closed",
            FenceError::Quarantine { .. } => "quarantine",
            FenceError::Unreachable(_) => "unreachable",
            FenceError::NotSetUp(_) => "not_set_up",
            FenceError::Refused(_) => "refused",
            FenceError::NoConnection(_) => "no_connection",
            FenceError::Conflict(_) => "retryable",
            FenceError::NoRuntime => "no_runtime",
        }
    }
}

/// Counts how admissions end, and logs the refusals: a client that has lost its lease unaware may send thousands.
#[derive(Default)]
pub(super) struct Outcomes(Mutex<BTreeMap<&'static str, LogThrottle>>);

impl Outcomes {
    /// Notes how an admission ended, and how long it took: zero if it had to wait for nothing. Each kind of
    /// refusal is a warning every ten seconds at most, and a line for debugging in between.
    pub(super) fn note(&self, took: Duration, refusal: Option<&FenceError>) {
        metrics::histogram!("fencing_admission_seconds").record(took.as_secs_f64());
        let Some(error) = refusal else {
            // Both labels are constant, and so nothing is allocated.
            metrics::counter!("fencing_admissions_total", "layer" => "fence", "outcome" => "admitted").increment(1);
            return;
        };
        let label = error.label();
        metrics::counter!("fencing_admissions_total", "layer" => "fence", "outcome" => label).increment(1);
        let next = self.0.lock().entry(label).or_default().next();
        match next {
            Some(suppressed) => tracing::warn!(%error, suppressed, "request not admitted"),
            None => tracing::debug!(%error, "request not admitted"),
        }
    }
}
