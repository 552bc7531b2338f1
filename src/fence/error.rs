use std::time::Duration;

use super::{MarksError, Stale};
use crate::resource::Resource;
use crate::token::Token;

/// Why a request was not admitted. Nothing may be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmitError {
    /// A newer token has been seen. Trying again is of no use: acquire a new lease.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// Requests with an older token did not end in time. Try again.
    #[error(
        "token {presented} of {resource} waited {} ms for a request with token {in_flight} to end",
        .waited.as_millis()
    )]
    Busy {
        /// What was to be written.
        resource: Resource,
        /// The token that was presented.
        presented: Token,
        /// The oldest token in flight.
        in_flight: Token,
        /// The fence's limit.
        waited: Duration,
    },
    /// The marks have no room for another resource. A mark is never forgotten to make some.
    #[error("no room for another resource: {limit} have a high-water mark")]
    Full {
        /// How many resources may have a mark.
        limit: usize,
    },
    /// The marks did not answer, or answered something that is no mark. Try again.
    #[error("high-water marks unreachable")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl AdmitError {
    /// What the metrics call it.
    pub(super) fn label(&self) -> &'static str {
        match self {
            AdmitError::Stale(_) => "stale",
            AdmitError::Busy { .. } => "busy",
            AdmitError::Full { .. } => "full",
            AdmitError::Unreachable(_) => "unreachable",
        }
    }
}

impl From<MarksError> for AdmitError {
    fn from(error: MarksError) -> AdmitError {
        match error {
            MarksError::Stale(stale) => AdmitError::Stale(stale),
            MarksError::Full { limit } => AdmitError::Full { limit },
            MarksError::Unreachable(cause) => AdmitError::Unreachable(cause),
        }
    }
}
