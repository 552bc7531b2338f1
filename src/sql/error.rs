use std::error::Error;

use fencing_protocol::{Resource, Token};

use super::refusal::refusal;
use crate::database::{Meaning, explain, meaning};
use crate::fence::{FenceError, Stale};

/// Why a fenced transaction failed: at its admission, a statement, or its commit. After any of these, roll it back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmitError {
    /// The mark is higher. It does not help to run the transaction again.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// A conflict with another transaction: a serialization failure, a deadlock, a lock that did not become free in
    /// time. This says nothing about the token. Roll back and run the whole transaction again.
    #[error("conflict with another transaction: roll back and run it again: {}", explain(.0))]
    Retryable(#[source] sqlx::Error),
    /// The table holds something that is not a valid token, such as a value changed by
    /// hand. No token is admitted to this resource until it is corrected.
    #[error("the mark of {resource} is not a valid token; correct it by hand: {source}")]
    Corrupt {
        /// Whose mark it is.
        resource: Resource,
        /// Its fault.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A table or function of the fence is missing.
    #[error(
        "a table or function of the fence is missing: run fencing::sql::migrate or `fencing \
         db migrate`, which creates it, or says what to do if it was lost: {}",
        explain(.0)
    )]
    NotMigrated(#[source] sqlx::Error),
    /// A protected table was written, and the transaction has not presented a token.
    #[error("no token was presented for a protected table: call fencing::sql::present first: {}", explain(.0))]
    Unpresented(#[source] sqlx::Error),
    /// The user lacks a right, or was not authenticated, or the file of SQLite takes no writes.
    #[error("the transaction failed: {}", explain(.0))]
    Denied(#[source] sqlx::Error),
    /// A statement of the transaction failed, be it yours or the admission, or the database could not be reached.
    #[error("the transaction failed: {}", explain(.0))]
    Database(#[source] sqlx::Error),
}

impl From<sqlx::Error> for AdmitError {
    /// Classifies an error of any statement: the transaction's writes and commit fail for the same reasons as `admit`.
    fn from(error: sqlx::Error) -> AdmitError {
        match meaning(&error) {
            Some(Meaning::Stale) => match refusal(&error) {
                Some(stale) => AdmitError::Stale(stale),
                None => AdmitError::Database(error),
            },
            Some(Meaning::Conflict | Meaning::RaiseFirst) => AdmitError::Retryable(error),
            Some(Meaning::Unpresented) => AdmitError::Unpresented(error),
            Some(Meaning::NotMigrated) => AdmitError::NotMigrated(error),
            Some(Meaning::Denied) => AdmitError::Denied(error),
            _ => AdmitError::Database(error),
        }
    }
}

/// So a handler behind the tower layer can answer the errors of a transaction with `?`.
impl From<AdmitError> for FenceError {
    fn from(error: AdmitError) -> FenceError {
        match error {
            AdmitError::Stale(stale) => FenceError::Stale(stale),
            error @ AdmitError::Retryable(_) => FenceError::Conflict(Box::new(error)),
            error @ AdmitError::Database(sqlx::Error::PoolTimedOut) => FenceError::NoConnection(Box::new(error)),
            error @ AdmitError::NotMigrated(_) => FenceError::NotSetUp(Box::new(error)),
            error @ (AdmitError::Corrupt { .. } | AdmitError::Denied(_)) => FenceError::Refused(Box::new(error)),
            error => FenceError::Unreachable(Box::new(error)),
        }
    }
}

impl From<sqlx::Error> for FenceError {
    fn from(error: sqlx::Error) -> FenceError {
        AdmitError::from(error).into()
    }
}

impl AdmitError {
    /// Reads the error of an admission of this token to this resource: the message of a procedure may have been cut.
    pub(super) fn of(resource: &Resource, token: Token, error: sqlx::Error) -> AdmitError {
        let is_undecoded = matches!(error, sqlx::Error::ColumnDecode { .. });
        if is_undecoded || meaning(&error) == Some(Meaning::Corrupt) {
            return AdmitError::corrupt(resource, error);
        }
        match error.into() {
            AdmitError::Stale(Stale { highest, .. }) => {
                AdmitError::Stale(Stale { resource: resource.clone(), presented: token, highest })
            }
            error => error,
        }
    }

    pub(super) fn corrupt(resource: &Resource, source: impl Into<Box<dyn Error + Send + Sync>>) -> AdmitError {
        AdmitError::Corrupt { resource: resource.clone(), source: source.into() }
    }

    pub(super) fn label(&self) -> &'static str {
        match self {
            AdmitError::Stale(_) => "stale",
            AdmitError::Retryable(_) => "retryable",
            AdmitError::Corrupt { .. } => "corrupt",
            AdmitError::NotMigrated(_) => "not_migrated",
            AdmitError::Unpresented(_) => "unpresented",
            AdmitError::Denied(_) | AdmitError::Database(_) => "unreachable",
        }
    }
}
