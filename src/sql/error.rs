use std::error::Error;

use super::backend::{Backend, Refusal};
use crate::Resource;
use crate::fence::Stale;

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
    /// The database failed, or could not be reached.
    #[error("the database did not admit the token")]
    Database(#[source] sqlx::Error),
}

impl AdmitError {
    pub(super) fn from_sqlx<DB: Backend>(error: sqlx::Error) -> AdmitError {
        match error.as_database_error().map(DB::refusal) {
            Some(Refusal::Conflict) => AdmitError::Retryable(error),
            Some(Refusal::NoTable) => AdmitError::NotMigrated(error),
            Some(Refusal::Other) | None => AdmitError::Database(error),
        }
    }

    pub(super) fn corrupt(
        resource: &Resource,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> AdmitError {
        AdmitError::Corrupt { resource: resource.clone(), source: source.into() }
    }
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
