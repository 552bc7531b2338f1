use std::ops::{Deref, DerefMut};
use std::sync::Weak;

use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use http::request::Parts;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::fence::Transactions;
use crate::http::NotFenced;
use crate::http::extract::find;

/// A handle to the transaction of a request, for services that do not use axum's extractors: you
/// find it in the request's extensions. You may keep it: it holds no transaction open.
#[derive(derive_more::Debug)]
#[debug("OpenTransaction {{ .. }}")]
pub struct OpenTransaction<T: Transactions>(pub(super) Weak<Mutex<T::Transaction>>);

impl<T: Transactions> OpenTransaction<T> {
    /// Takes the transaction, until what this returns is dropped. Returns `None` while another user
    /// has the transaction, and once the response has been made.
    #[must_use]
    pub fn take(&self) -> Option<InTransaction<T>> {
        self.0.upgrade()?.try_lock_owned().ok().map(InTransaction)
    }
}

impl<T: Transactions> Clone for OpenTransaction<T> {
    fn clone(&self) -> OpenTransaction<T> {
        OpenTransaction(Weak::clone(&self.0))
    }
}

/// The transaction of a request behind a [`TransactionLayer`](super::TransactionLayer), as an axum extractor.
/// It is a `sqlx::Transaction` in which the token is admitted: run statements on `&mut **tx`.
///
/// The layer ends it. Drop it before the response is made (a handler that takes it by value does so):
/// a transaction that is kept longer is never committed.
///
/// Take `Option<InTransaction<_>>` where a token may be missing, as in a read.
#[derive(derive_more::Debug)]
#[debug("InTransaction {{ .. }}")]
pub struct InTransaction<T: Transactions>(OwnedMutexGuard<T::Transaction>);

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

fn take<T: Transactions>(parts: &Parts) -> Result<InTransaction<T>, NotFenced> {
    find::<OpenTransaction<T>>(&parts.extensions)?.take().ok_or(NotFenced::Taken)
}

impl<S: Sync, T: Transactions> FromRequestParts<S> for InTransaction<T> {
    type Rejection = NotFenced;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotFenced> {
        take(parts)
    }
}

impl<S: Sync, T: Transactions> OptionalFromRequestParts<S> for InTransaction<T> {
    type Rejection = NotFenced;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, NotFenced> {
        match take(parts) {
            Ok(transaction) => Ok(Some(transaction)),
            Err(NotFenced::NoToken) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
