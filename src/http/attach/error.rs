use std::error::Error;

use crate::fence::Stale;
use crate::http::Problem;

/// Why a request under a lease came to nothing. `E` is the error of the service that sends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError<E> {
    /// The lease is over. Nothing was sent.
    #[error("the lease is over: the request was not sent")]
    LeaseOver,
    /// The layer takes the lease of the [task](super::within), and the task has none. Nothing was sent.
    #[error("no lease: send the request inside http::within(lease, ...)")]
    NoLease,
    /// The fence of the server has refused the request, or its outcome is in doubt: see
    /// [`Problem::kind`]. With [`Problem::SUPERSEDED`], [`Problem::IN_DOUBT`] and
    /// [`Problem::UNAVAILABLE`] the write may be stored. A refusal over gRPC is no such error but a
    /// response: its client gets the status, and [`Problem::read_grpc`] reads the rest from the metadata.
    #[error("refused by the fence: {}", .0.detail)]
    Refused(Box<Problem>),
    /// The problem details in the response break off, or are longer than 64 KiB.
    #[error("the refusal cannot be read: {0}")]
    Response(#[source] Box<dyn Error + Send + Sync>),
    /// The service that sends the request failed. Its error says whether the request may have
    /// arrived.
    #[error(transparent)]
    Service(E),
}

impl<E> AttachError<E> {
    /// Returns the refusal of a stale token, if it is one and the server has sent every part of it.
    #[must_use]
    pub fn stale(&self) -> Option<Stale> {
        match self {
            AttachError::Refused(problem) => problem.stale(),
            _ => None,
        }
    }
}
