use auto_impl::auto_impl;
use fencing_protocol::{Resource, Token};
use futures_util::future::{BoxFuture, FutureExt, ready};

use super::FenceError;

/// The answer of marks.
pub type MarksFuture<'a, T> = BoxFuture<'a, Result<T, FenceError>>;

/// The high-water marks: for each resource, the highest token seen.
///
/// **Fencing.** An implementation must compare and raise in one atomic step, and must
/// never lower or forget a mark. [`Stale::check`](super::Stale::check) is the comparison.
#[auto_impl(Arc)]
pub trait Marks: Send + Sync + 'static {
    /// Compares `token` with the mark and raises the mark to it, in one atomic step. Equal passes, lower is refused.
    ///
    /// # Errors
    /// Returns [`FenceError::Stale`] if the mark is higher; the mark is unchanged. After any other
    /// error do not write; the mark may or may not have been raised.
    ///
    /// # Cancel safety
    /// If you drop the future, the mark may have been raised: at worst a token that is not the newest is refused.
    fn raise<'a>(&'a self, resource: &'a Resource, token: Token) -> MarksFuture<'a, ()>;

    /// Does what [`raise`](Marks::raise) does, before it returns. If these marks may have to wait, it does nothing and
    /// returns `None`: the fence calls `raise`. The default returns `None`; marks in memory save a future per request.
    ///
    /// **Fencing.** As for `raise`. It must not call the fence that calls it.
    ///
    /// # Errors
    /// As for `raise`.
    fn raise_now(&self, resource: &Resource, token: Token) -> Option<Result<(), FenceError>> {
        let _ = (resource, token);
        None
    }

    /// Reads the mark of `resource`, if it has one. A fence that [checks what was
    /// issued](super::Fence::check_sequencer) checks tokens above it.
    ///
    /// **Fencing.** It must not be above the mark; it may be below, such as a mark read a moment
    /// ago. The default returns no mark, and then the fence checks every token.
    ///
    /// # Errors
    /// Returns [`FenceError::Unreachable`] if the mark cannot be read.
    ///
    /// # Cancel safety
    /// It changes nothing.
    fn highest<'a>(&'a self, resource: &'a Resource) -> MarksFuture<'a, Option<Token>> {
        let _ = resource;
        ready(Ok(None)).boxed()
    }

    /// Reads up to `limit` marks whose names come after `after`, in the order of their names. For
    /// operators. The default: this store cannot list its marks.
    ///
    /// **Fencing.** None: the marks may be higher by the time that you read them.
    ///
    /// # Errors
    /// Returns [`FenceError::Unreachable`] if they cannot be read.
    ///
    /// # Cancel safety
    /// It changes nothing.
    fn list<'a>(&'a self, after: Option<&'a Resource>, limit: usize) -> MarksFuture<'a, Vec<(Resource, Token)>> {
        let _ = (after, limit);
        ready(Err(FenceError::Unreachable("this store cannot list its marks".into()))).boxed()
    }
}
