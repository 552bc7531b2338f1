use std::error::Error;

use sqlx::error::DatabaseError;

use super::backend::Refusal;
use super::{message, mysql, postgres, sqlite};
use crate::fence::Stale;
use crate::resource::Resource;
use crate::token::Token;

/// Why a transaction was not admitted. After any of these, roll it back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmitError {
    /// The mark is higher. Running it again cannot help.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// Another transaction was in the way: a serialization failure, a deadlock, a lock
    /// that was not to be had in time. Says nothing about the token; roll back and run
    /// the whole transaction again.
    #[error("another transaction was in the way: roll back and run it again")]
    Retryable(#[source] sqlx::Error),
    /// The table holds something that is no token, such as a value changed by hand.
    /// Nobody is admitted to this resource until that is put right.
    #[error("the mark of {resource} is no token")]
    Corrupt {
        /// Whose mark it is.
        resource: Resource,
        /// What is wrong with it.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The table of the marks is not there.
    #[error("there is no table fencing_marks: run fencing::sql::migrate first")]
    NotMigrated(#[source] sqlx::Error),
    /// A protected table was written, and the transaction has not presented a token.
    #[error("no token was presented for a protected table: call fencing::sql::present first")]
    Unpresented(#[source] sqlx::Error),
    /// The database failed, or could not be reached.
    #[error("the database did not admit the token")]
    Database(#[source] sqlx::Error),
}

impl From<sqlx::Error> for AdmitError {
    /// What the driver's error means, whichever statement it came from: the transaction's
    /// own writes and its commit fail for the same reasons as `admit`.
    fn from(error: sqlx::Error) -> AdmitError {
        match error.as_database_error().map(refusal) {
            Some(Refusal::Conflict | Refusal::RaiseFirst) => AdmitError::Retryable(error),
            Some(Refusal::NoTable) => AdmitError::NotMigrated(error),
            Some(Refusal::Stale(stale)) => AdmitError::Stale(stale),
            Some(Refusal::Unpresented) => AdmitError::Unpresented(error),
            Some(Refusal::Corrupt | Refusal::Other) | None => AdmitError::Database(error),
        }
    }
}

/// Asks every database: each knows its own errors.
fn refusal(error: &dyn DatabaseError) -> Refusal {
    let databases = [postgres::refusal, mysql::refusal, sqlite::refusal];
    databases.iter().find_map(|database| database(error)).unwrap_or(Refusal::Other)
}

pub(super) fn is_conflict(error: &sqlx::Error) -> bool {
    let refusal = error.as_database_error().map(refusal);
    matches!(refusal, Some(Refusal::Conflict | Refusal::RaiseFirst))
}

pub(super) fn is_to_raise_first(error: &sqlx::Error) -> bool {
    matches!(error.as_database_error().map(refusal), Some(Refusal::RaiseFirst))
}

impl AdmitError {
    /// Of a procedure that was called with this name and token: its message may have been
    /// cut.
    pub(super) fn of(resource: &Resource, token: Token, error: sqlx::Error) -> AdmitError {
        match error.as_database_error().map(refusal) {
            Some(Refusal::Stale(Stale { highest, .. })) => {
                Stale { resource: resource.clone(), presented: token, highest }.into()
            }
            Some(Refusal::Corrupt) => AdmitError::corrupt(resource, error),
            _ => error.into(),
        }
    }

    pub(super) fn corrupt(
        resource: &Resource,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> AdmitError {
        AdmitError::Corrupt { resource: resource.clone(), source: source.into() }
    }

    /// Whether the whole transaction may succeed when it is run again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, AdmitError::Retryable(_))
    }
}

/// What the error says, if it is that this token of this resource is stale: for those whose
/// transactions are not `sqlx`'s ([`statement`](super::statement)). It is found in the text
/// of the error, or of one that it comes from: any library's will do that repeats what the
/// database said.
#[must_use]
pub fn stale(
    error: &(dyn Error + 'static),
    resource: &Resource,
    presented: Token,
) -> Option<Stale> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(highest) = message::highest(&error.to_string(), resource, presented) {
            return Some(Stale { resource: resource.clone(), presented, highest });
        }
        next = error.source();
    }
    None
}

/// Why the tables were not brought up to date. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// Others kept the database locked for too long.
    #[error("the database stayed locked by others")]
    Locked(#[source] sqlx::Error),
    /// A migration failed, or one that was applied is not the one that this version knows.
    #[error("the tables of the fence could not be brought up to date")]
    Migration(#[source] sqlx::migrate::MigrateError),
    /// The database failed, or could not be reached.
    #[error("the database could not be migrated")]
    Database(#[source] sqlx::Error),
}

impl From<sqlx::Error> for MigrateError {
    fn from(error: sqlx::Error) -> MigrateError {
        match AdmitError::from(error) {
            AdmitError::Retryable(error) => MigrateError::Locked(error),
            AdmitError::Database(error) | AdmitError::NotMigrated(error) => {
                MigrateError::Database(error)
            }
            error => MigrateError::Database(sqlx::Error::Decode(Box::new(error))),
        }
    }
}

impl From<sqlx::migrate::MigrateError> for MigrateError {
    fn from(error: sqlx::migrate::MigrateError) -> MigrateError {
        match error {
            sqlx::migrate::MigrateError::Execute(error) => error.into(),
            error => MigrateError::Migration(error),
        }
    }
}
