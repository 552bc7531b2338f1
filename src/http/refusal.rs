use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;

use fencing_protocol::{Resource, Token, TokenError};

use super::PathError;
use crate::fence::{FenceError, NotIssued, Stale};

/// Why a request was not carried out, or not to its end.
///
/// Every response of a refusal carries it in its extensions: an outer layer can count it or replace the response.
///
/// `?` turns the errors of your own check into a refusal: a [`Stale`], a [`FenceError`], and whatever converts into
/// that, such as the errors of `fencing::sql` and of sqlx. So a handler that returns `Result<_, Refusal>` answers a
/// stale token with 412 and a failure with 503, as the layer does.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The fence has seen a newer token. Nothing was written: the layer did not call the
    /// handler, or the handler's own check refused.
    #[error(transparent)]
    Stale(Stale),
    /// The lock service has not issued the token for this resource. Nothing was written.
    #[error(transparent)]
    NotIssued(NotIssued),
    /// A newer token came while the handler worked on the request, and the fence [drops
    /// older](crate::fence::Fence::drop_older_after) requests. Its writes until then may be stored.
    #[error("cut off by a newer request, in doubt: {0}")]
    Superseded(Stale),
    /// The request needs a token and has none.
    #[error("the request needs a fencing token and has none")]
    Missing,
    /// The token is not a valid one.
    #[error("the fencing token of the request can't be read: {0}")]
    Malformed(TokenError),
    /// The request carries the header more than once.
    #[error("the request carries more than one fencing token")]
    Repeated,
    /// The [sequencer](super::SEQUENCER) of the request cannot be read, or names another token or another
    /// resource than the request.
    #[error("the sequencer does not belong to the request: {0}")]
    Mismatch(String),
    /// The server's extractor found no resource.
    #[error("the request does not name a resource: {0}")]
    Resource(String),
    /// The server cannot name the resource: it is misconfigured.
    #[error("the request was not carried out: {0}")]
    NoResource(#[source] PathError),
    /// A [`NameLayer`](super::NameLayer) could not determine the resource, because a server that its
    /// closure asks, such as a database, failed. Nothing was written.
    #[error("could not determine the resource of the request: {0}")]
    Unnamed(#[source] Arc<dyn Error + Send + Sync>),
    /// The fence could not admit: the marks are unreachable or full, the lock service cannot be asked, older requests
    /// do not end, too many wait for them, or tokio does not run. The layer did not call the handler.
    #[error("{cause}")]
    Unavailable {
        /// The resource of the request.
        resource: Resource,
        /// The presented token.
        presented: Token,
        /// The cause.
        cause: Arc<FenceError>,
    },
    /// The storage of the fence is not set up: a table or a function is missing. Nothing was written by the
    /// failed check, and a retry does not help.
    #[error("the fence of the request is not set up: {0}")]
    NotSetUp(#[source] Arc<dyn Error + Send + Sync>),
    /// Another transaction conflicts with the one that checks the token, which was rolled back. It says
    /// nothing about the token: the same request may succeed when it is sent again. Only a layer returns
    /// this, for its own transaction: `?` in a handler makes a [`Refusal::Failed`] of such an error, and a
    /// [`TransactionLayer`](super::TransactionLayer) around the handler turns that into this.
    #[error("conflicting transaction; this one was rolled back: {0}")]
    Conflict(#[source] Arc<dyn Error + Send + Sync>),
    /// The handler succeeded, but its [transaction](super::TransactionLayer) was rolled back: one of its
    /// statements had failed, or the database has lost it. Nothing of it is stored.
    #[error("the transaction of the request was rolled back: {0}")]
    RolledBack(#[source] Arc<dyn Error + Send + Sync>),
    /// The commit of the request's [transaction](super::TransactionLayer) failed, or its answer was lost.
    /// The handler's writes may be stored.
    #[error("the commit failed, in doubt: {0}")]
    InDoubt(#[source] Arc<dyn Error + Send + Sync>),
    /// The handler succeeded, but something still holds its [transaction](super::InTransaction), such as a task or the
    /// body of its response. Nothing of it is stored.
    #[error("the handler kept its transaction after its response; it was not committed")]
    Kept,
    /// The handler's own check failed, or its write. Its writes may be stored.
    #[error("the write failed, in doubt: {0}")]
    Failed(#[source] Arc<dyn Error + Send + Sync>),
}

impl<E: Into<FenceError>> From<E> for Refusal {
    fn from(error: E) -> Refusal {
        match error.into() {
            FenceError::Stale(stale) => Refusal::Stale(stale),
            FenceError::NotIssued(not_issued) => Refusal::NotIssued(not_issued),
            FenceError::NotSetUp(cause) => Refusal::NotSetUp(cause.into()),
            FenceError::Unreachable(cause) => Refusal::Failed(cause.into()),
            error => Refusal::Failed(Arc::new(error)),
        }
    }
}

impl Refusal {
    /// Returns the refusal of a request that names its resource wrongly: a 400, with the text of the error.
    pub fn unnamed<E: Display>(error: E) -> Refusal {
        Refusal::Resource(error.to_string())
    }

    pub(super) fn before_the_handler(resource: Resource, presented: Token, error: FenceError) -> Refusal {
        match error {
            FenceError::Conflict(cause) => Refusal::Conflict(cause.into()),
            FenceError::Stale(_) | FenceError::NotIssued(_) | FenceError::NotSetUp(_) => error.into(),
            cause => Refusal::Unavailable { resource, presented, cause: Arc::new(cause) },
        }
    }
}
