use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use http::request::Parts;
use parking_lot::Mutex;
use scopeguard::{ScopeGuard, guard};

use crate::fence::Transactions;
use crate::http::NotFenced;
use crate::http::extract::WithoutToken;

/// The place of one request's transaction. One user has the transaction at a time, until the request is over.
struct Slot<X> {
    idle: Option<X>,
    is_closed: bool,
}

type SharedSlot<T> = Arc<Mutex<Slot<<T as Transactions>::Transaction>>>;

/// The layer's own handle. When it is dropped, the transaction ends, unless a user still works with it.
pub(super) struct TransactionOwner<T: Transactions>(SharedSlot<T>);

impl<T: Transactions> TransactionOwner<T> {
    pub(super) fn new(transaction: T::Transaction) -> TransactionOwner<T> {
        let slot = Slot { idle: Some(transaction), is_closed: false };
        TransactionOwner(Arc::new(Mutex::new(slot)))
    }

    pub(super) fn handle(&self) -> OpenTransaction<T> {
        OpenTransaction(Arc::clone(&self.0))
    }

    /// Takes the transaction back, unless a user still works with it: then it is dropped when that user lets go. In any
    /// case no user gets it after that.
    pub(super) fn close(&self) -> Option<T::Transaction> {
        let mut slot = self.0.lock();
        slot.is_closed = true;
        slot.idle.take()
    }
}

impl<T: Transactions> Drop for TransactionOwner<T> {
    fn drop(&mut self) {
        drop(self.close());
    }
}

/// A handle to the transaction of a request, for services that do not use axum's extractors: you
/// find it in the request's extensions. You may keep it: it holds no transaction open.
pub struct OpenTransaction<T: Transactions>(SharedSlot<T>);

impl<T: Transactions> OpenTransaction<T> {
    /// Takes the transaction, until what this returns is dropped. Returns `None` while another user
    /// has the transaction, and once the response has been made.
    #[must_use]
    pub fn take(&self) -> Option<InTransaction<T>> {
        let transaction = self.0.lock().idle.take()?;
        let slot = Arc::clone(&self.0);
        let give_back: GiveBack<T> = Box::new(move |transaction| {
            let mut slot = slot.lock();
            if !slot.is_closed {
                slot.idle = Some(transaction);
            }
        });
        Some(InTransaction(guard(transaction, give_back)))
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
pub struct InTransaction<T: Transactions>(ScopeGuard<T::Transaction, GiveBack<T>>);

type GiveBack<T> = Box<dyn FnOnce(<T as Transactions>::Transaction) + Send + Sync>;

impl<T: Transactions> Deref for InTransaction<T> {
    type Target = T::Transaction;

    fn deref(&self) -> &T::Transaction {
        &self.0
    }
}

impl<T: Transactions> DerefMut for InTransaction<T> {
    fn deref_mut(&mut self) -> &mut T::Transaction {
        &mut self.0
    }
}

impl<T: Transactions> fmt::Debug for InTransaction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InTransaction").finish_non_exhaustive()
    }
}

fn find<T: Transactions>(parts: &Parts) -> Result<InTransaction<T>, NotFenced> {
    match parts.extensions.get::<OpenTransaction<T>>() {
        Some(open) => open.take().ok_or(NotFenced::Taken),
        None if parts.extensions.get::<WithoutToken>().is_some() => Err(NotFenced::NoToken),
        None => Err(NotFenced::NoLayer),
    }
}

impl<S: Sync, T: Transactions> FromRequestParts<S> for InTransaction<T> {
    type Rejection = NotFenced;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotFenced> {
        find(parts)
    }
}

impl<S: Sync, T: Transactions> OptionalFromRequestParts<S> for InTransaction<T> {
    type Rejection = NotFenced;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, NotFenced> {
        match find(parts) {
            Ok(transaction) => Ok(Some(transaction)),
            Err(NotFenced::NoToken) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
