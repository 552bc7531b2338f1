use std::error::Error;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::FenceError;
use crate::sequencer::Sequencer;

/// A storage whose transactions check tokens: once a token is admitted, from any process, no older write lands.
///
/// Every `sqlx` pool of a database that this crate knows is one (features `postgres`, `mysql`,
/// `sqlite`). `http::TransactionLayer` opens one transaction for each request.
pub trait Transactions: Clone + Send + Sync + 'static {
    /// An open transaction. Dropped, it must be rolled back.
    type Transaction: Send + 'static;

    /// Time for which the handler of a dropped request may continue, so that its driver can finish a statement.
    /// Then the handler is dropped, and its transaction with it.
    const GRACE: Duration = Duration::ZERO;

    /// Opens a transaction and admits all these tokens in it, in the order of their resources: no two deadlock.
    ///
    /// **Fencing.** Until the transaction ends, no newer token of these resources may be admitted anywhere.
    ///
    /// # Errors
    /// Returns a [`FenceError`]: [`Stale`](FenceError::Stale) if a newer token was seen,
    /// [`Conflict`](FenceError::Conflict) if another transaction conflicts. In both cases no transaction is left open.
    ///
    /// # Cancel safety
    /// If the future is dropped, it must leave no transaction open for good.
    fn begin<'a>(&'a self, admitted: &'a [Sequencer]) -> BoxFuture<'a, Result<Self::Transaction, FenceError>>;

    /// Commits the transaction.
    ///
    /// # Errors
    /// Returns a [`CommitError`], which says whether anything may be stored.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction may be committed or not.
    fn commit(transaction: Self::Transaction) -> BoxFuture<'static, Result<(), CommitError>>;

    /// Rolls the transaction back. Returns when the storage has done so, or could not be reached.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction is rolled back as well.
    fn rollback(transaction: Self::Transaction) -> BoxFuture<'static, ()>;
}

/// Why a transaction was not committed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A conflict with another transaction. Nothing of this one is stored. The request may succeed when sent again.
    #[error("conflicting transaction; this one was rolled back: {0}")]
    Conflict(#[source] Box<dyn Error + Send + Sync>),
    /// Nothing of the transaction is stored: one of its statements had failed, or it was lost before its commit.
    #[error("the transaction could not be committed, and was rolled back: {0}")]
    RolledBack(#[source] Box<dyn Error + Send + Sync>),
    /// The transaction may or may not be stored.
    #[error("the transaction may or may not be stored: {0}")]
    InDoubt(#[source] Box<dyn Error + Send + Sync>),
}
