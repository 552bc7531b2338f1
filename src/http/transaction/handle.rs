use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use axum_core::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use tokio::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};

use crate::fence::Transactions;
use crate::http::Refusal;
use crate::http::extract::WithoutToken;

/// The transaction of one request. One user works with it at a time, until the request is over.
struct RequestTransaction<T: Transactions> {
    idle: Arc<Mutex<Option<T::Transaction>>>,
    /// The request is over: no user gets the transaction any more.
    closed: AtomicBool,
}

impl<T: Transactions> RequestTransaction<T> {
    /// Closes it, and takes the transaction out. If a user still works with it, its `DropIfClosed` finds it
    /// closed, and drops the transaction.
    fn close(&self) -> Option<T::Transaction> {
        self.closed.store(true, Ordering::SeqCst);
        // Pairs with the fence in `DropIfClosed`: the second of the two sees the change of the first.
        fence(Ordering::SeqCst);
        self.remove()
    }

    fn remove(&self) -> Option<T::Transaction> {
        self.idle.try_lock().ok()?.take()
    }
}

/// The layer's own handle. When it is dropped, the transaction ends, unless a user still works with it.
pub(super) struct TransactionOwner<T: Transactions>(Arc<RequestTransaction<T>>);

impl<T: Transactions> TransactionOwner<T> {
    pub(super) fn new(transaction: T::Transaction) -> TransactionOwner<T> {
        let idle = Arc::new(Mutex::new(Some(transaction)));
        TransactionOwner(Arc::new(RequestTransaction { idle, closed: AtomicBool::new(false) }))
    }

    pub(super) fn handle(&self) -> OpenTransaction<T> {
        OpenTransaction(Arc::clone(&self.0))
    }

    /// Takes the transaction back, unless a user still works with it. In any case no user gets it after
    /// that.
    pub(super) fn close(self) -> Option<T::Transaction> {
        self.0.close()
    }
}

impl<T: Transactions> Drop for TransactionOwner<T> {
    fn drop(&mut self) {
        drop(self.0.close());
    }
}

/// A handle to the transaction of a request, for services that do not use axum's extractors: you
/// find it in the request's extensions. You may keep it: it holds no transaction open.
pub struct OpenTransaction<T: Transactions>(Arc<RequestTransaction<T>>);

impl<T: Transactions> OpenTransaction<T> {
    /// Takes the transaction, until what this returns is dropped. Returns `None` while another user
    /// has the transaction, and once the response has been made.
    #[must_use]
    pub fn take(&self) -> Option<InTransaction<T>> {
        let idle = Arc::clone(&self.0.idle).try_lock_owned().ok()?;
        let transaction = OwnedMutexGuard::try_map(idle, Option::as_mut).ok()?;
        Some(InTransaction { transaction, _end: DropIfClosed(Arc::clone(&self.0)) })
    }
}

impl<T: Transactions> Clone for OpenTransaction<T> {
    fn clone(&self) -> OpenTransaction<T> {
        OpenTransaction(Arc::clone(&self.0))
    }
}

impl<T: Transactions> fmt::Debug for OpenTransaction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTransaction").finish_non_exhaustive()
    }
}

/// The transaction of a request behind a [`TransactionLayer`](super::TransactionLayer), as an axum extractor.
/// It is a `sqlx::Transaction` in which the token is admitted: run statements on `&mut **tx`.
///
/// The layer ends it. Drop it before the response is made (a handler that takes it by value does so):
/// a transaction that is kept longer is never committed.
///
/// Take `Option<InTransaction<_>>` where a token may be missing, as in a read.
pub struct InTransaction<T: Transactions> {
    // Dropped in this order.
    transaction: OwnedMappedMutexGuard<Option<T::Transaction>, T::Transaction>,
    _end: DropIfClosed<T>,
}

/// Drops a transaction that comes back when the request is over.
struct DropIfClosed<T: Transactions>(Arc<RequestTransaction<T>>);

impl<T: Transactions> Drop for DropIfClosed<T> {
    fn drop(&mut self) {
        // The lock is free by now.
        fence(Ordering::SeqCst);
        if self.0.closed.load(Ordering::SeqCst) {
            drop(self.0.remove());
        }
    }
}

impl<T: Transactions> Deref for InTransaction<T> {
    type Target = T::Transaction;

    fn deref(&self) -> &T::Transaction {
        &self.transaction
    }
}

impl<T: Transactions> DerefMut for InTransaction<T> {
    fn deref_mut(&mut self) -> &mut T::Transaction {
        &mut self.transaction
    }
}

impl<T: Transactions> fmt::Debug for InTransaction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InTransaction").finish_non_exhaustive()
    }
}

/// Why a handler got no transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoTransaction {
    /// The request carries no token, and its method did not need one. The client gets a 428.
    #[error("the request carries no fencing token, and its handler needs a transaction")]
    NoToken,
    /// The handler has no [`TransactionLayer`](super::TransactionLayer) of this pool's kind around it: the
    /// server is set up wrongly. The client gets a 500.
    #[error("the handler takes a transaction, and its route has no TransactionLayer of that kind")]
    NoLayer,
    /// It is in use: by another extractor, or by a layer between. The client gets a 500.
    #[error("the transaction of the request is taken already")]
    Taken,
}

impl IntoResponse for NoTransaction {
    fn into_response(self) -> Response {
        match self {
            NoTransaction::NoToken => IntoResponse::into_response(Refusal::Missing),
            NoTransaction::NoLayer | NoTransaction::Taken => {
                tracing::error!(error = %self, "request not carried out");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

fn find<T: Transactions>(parts: &Parts) -> Result<InTransaction<T>, NoTransaction> {
    match parts.extensions.get::<OpenTransaction<T>>() {
        Some(open) => open.take().ok_or(NoTransaction::Taken),
        None if parts.extensions.get::<WithoutToken>().is_some() => Err(NoTransaction::NoToken),
        None => Err(NoTransaction::NoLayer),
    }
}

impl<S: Sync, T: Transactions> FromRequestParts<S> for InTransaction<T> {
    type Rejection = NoTransaction;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoTransaction> {
        find(parts)
    }
}

impl<S: Sync, T: Transactions> OptionalFromRequestParts<S> for InTransaction<T> {
    type Rejection = NoTransaction;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, NoTransaction> {
        match find(parts) {
            Ok(transaction) => Ok(Some(transaction)),
            Err(NoTransaction::NoToken) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
