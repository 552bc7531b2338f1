use futures_util::future::BoxFuture;

use super::Stale;
use crate::resource::Resource;
use crate::token::Token;

/// The high-water marks: for each resource, the highest token seen.
///
/// **Fencing.** An implementation compares and raises in one atomic step, and never
/// lowers or forgets a mark.
pub trait Marks: Send + Sync + 'static {
    /// Compares `token` with the mark of `resource` and raises the mark to it, at once.
    /// Equal passes, lower is refused.
    ///
    /// # Errors
    /// [`MarksError::Stale`] if the mark is higher, and then it is left as it is. Any
    /// other error: nobody may write, and the mark may or may not have been raised.
    ///
    /// # Cancel safety
    /// Dropped, the mark may or may not have been raised, which at worst refuses a
    /// token that is not the newest.
    fn raise<'a>(
        &'a self,
        resource: &'a Resource,
        token: Token,
    ) -> BoxFuture<'a, Result<(), MarksError>>;
}

/// Why [`Marks`] did not let a token pass.
#[derive(Debug, thiserror::Error)]
pub enum MarksError {
    /// A newer token has been seen.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// There is no room for another resource. A mark is never forgotten to make some.
    #[error("no room for another resource: {limit} have a high-water mark")]
    Full {
        /// How many resources may have a mark.
        limit: usize,
    },
    /// The store did not answer, or answered something that is no mark.
    #[error("high-water marks unreachable")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
}
