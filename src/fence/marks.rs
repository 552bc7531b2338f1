use std::time::Duration;

use auto_impl::auto_impl;
use fencing_protocol::{Resource, Token};
use futures_util::future::{BoxFuture, FutureExt, ready};

use super::Stale;

/// The high-water marks: for each resource, the highest token seen.
///
/// **Fencing.** An implementation must compare and raise in one atomic step, and must
/// never lower or forget a mark. [`Stale::check`] is the comparison.
#[auto_impl(Arc)]
pub trait Marks: Send + Sync + 'static {
    /// Compares `token` with the mark of `resource` and raises the mark to it, in one
    /// atomic step. Equal passes, lower is refused.
    ///
    /// # Errors
    /// Returns [`MarksError::Stale`] if the mark is higher; the mark stays as it is. After
    /// any other error do not write; the mark may or may not have been raised.
    ///
    /// # Cancel safety
    /// If you drop the future, the mark may or may not have been raised. At worst a token
    /// that is not the newest is refused later.
    fn raise<'a>(
        &'a self,
        resource: &'a Resource,
        token: Token,
    ) -> BoxFuture<'a, Result<(), MarksError>>;

    /// Does what [`raise`](Marks::raise) does, before it returns. Returns `None` if these marks may have to
    /// wait for that, and then does nothing: the fence calls `raise`. The default returns `None`; marks in the
    /// memory of the process save the fence a future for each request.
    ///
    /// **Fencing.** As for `raise`. It must not call the fence that calls it.
    ///
    /// # Errors
    /// As for `raise`.
    fn raise_now(&self, resource: &Resource, token: Token) -> Option<Result<(), MarksError>> {
        let _ = (resource, token);
        None
    }

    /// Reads the mark of `resource`, if it has one. A fence that
    /// [checks what was issued](super::Fence::check_sequencer) asks about tokens above it.
    ///
    /// **Fencing.** It must not be above the mark; it may be below, as one that was read a moment
    /// ago. The default returns no mark, and then the fence asks about every token.
    ///
    /// # Errors
    /// Returns [`MarksError::Unreachable`] if the mark cannot be read.
    ///
    /// # Cancel safety
    /// It changes nothing.
    fn highest<'a>(
        &'a self,
        resource: &'a Resource,
    ) -> BoxFuture<'a, Result<Option<Token>, MarksError>> {
        let _ = resource;
        ready(Ok(None)).boxed()
    }

    /// Reads up to `limit` marks whose names come after `after`, in the order of their names. For
    /// operators. The default says that these marks do not list themselves.
    ///
    /// **Fencing.** None: the marks may be higher by the time that you read them.
    ///
    /// # Errors
    /// Returns [`MarksError::Unreachable`] if they cannot be read.
    ///
    /// # Cancel safety
    /// It changes nothing.
    fn list<'a>(
        &'a self,
        after: Option<&'a Resource>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(Resource, Token)>, MarksError>> {
        let _ = (after, limit);
        ready(Err(MarksError::Unreachable("these marks do not list themselves".into()))).boxed()
    }
}

/// Why [`Marks`] did not let a token pass.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MarksError {
    /// The marks have seen a newer token.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The marks have no room for another resource, and never forget one to make room.
    #[error("no room for another resource: all {limit} marks are in use; raise their limit")]
    Full {
        /// How many resources may have a mark.
        limit: usize,
    },
    /// The store has no marks: a table or a function is missing. To try again does not help.
    #[error("the storage of the high-water marks is not set up: {0}")]
    NotSetUp(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The marks answer, but may have forgotten some: no request passes until an operator has opened them.
    #[error(transparent)]
    Closed(Box<dyn std::error::Error + Send + Sync>),
    /// Requests of an earlier process may still be at work: no request passes until the quarantine ends.
    #[error("in quarantine for another {} s: requests of an earlier process may be at work", .left.as_secs() + 1)]
    Quarantine {
        /// The time left of the quarantine.
        left: Duration,
    },
    /// The store did not answer, or answered something that is not a mark.
    #[error("high-water marks unreachable: {0}")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
}
