use std::error::Error;
use std::iter::successors;

use fencing_protocol::{Resource, Token};

use super::message;
use crate::database::{Meaning, is_conflict, meaning, text};
use crate::fence::{FenceError, Stale};

/// Why a fenced transaction failed: at its admission, at a statement, or at its commit. After any
/// of these errors, roll it back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmitError {
    /// The mark is higher. It does not help to run the transaction again.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// A conflict with another transaction: a serialization failure, a deadlock, a lock that did not become free in
    /// time. This says nothing about the token. Roll back and run the whole transaction again.
    #[error("conflict with another transaction: roll back and run it again: {}", text(.0))]
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
         db migrate`, which creates it, or says that marks are lost: {}",
        text(.0)
    )]
    NotMigrated(#[source] sqlx::Error),
    /// A protected table was written, and the transaction has not presented a token.
    #[error(
        "no token was presented for a protected table: call fencing::sql::present first: {}",
        text(.0)
    )]
    Unpresented(#[source] sqlx::Error),
    /// A statement of the transaction failed, be it yours or the admission, or the database could not be reached.
    #[error("the transaction failed: {}", text(.0))]
    Database(#[source] sqlx::Error),
}

impl From<sqlx::Error> for AdmitError {
    /// Classifies the driver's error, of any statement: the transaction's own writes and its commit
    /// fail for the same reasons as `admit`.
    fn from(error: sqlx::Error) -> AdmitError {
        match meaning(&error) {
            Some(Meaning::Stale) => match message::refusal(&error) {
                Some(stale) => AdmitError::Stale(stale),
                None => AdmitError::Database(error),
            },
            Some(Meaning::Conflict | Meaning::RaiseFirst) => AdmitError::Retryable(error),
            Some(Meaning::Unpresented) => AdmitError::Unpresented(error),
            Some(Meaning::NotMigrated) => AdmitError::NotMigrated(error),
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
            AdmitError::Database(_) => "unreachable",
        }
    }

    /// Returns whether the whole transaction may succeed when it is run again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, AdmitError::Retryable(_))
    }
}

/// Returns the refusal, if the error says that this token of this resource is stale. Use it for
/// transactions of other libraries than `sqlx` ([`statement`](super::statement)). It reads the text of the error and of
/// its sources, so it works with any library that repeats what the database said.
#[must_use]
pub fn stale(error: &(dyn Error + 'static), resource: &Resource, presented: Token) -> Option<Stale> {
    successors(Some(error), |error| (**error).source()).find_map(|error| {
        let highest = message::highest(&error.to_string(), resource, presented);
        Stale::check(resource, presented, highest).err()
    })
}

/// What the loss of `fencing_leases` asks for.
const KEEP_STOPPED: &str = "stop all clients, as their latest tokens are lost, until you have done all of this and then \
                            run `fencing db marks raise-floor --yes`: ";

/// Why the tables were not brought up to date. Nothing was changed, unless the variant says so. On
/// MySQL, part of the work may have been done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// Another session kept the database locked for too long.
    #[error("another session kept the database locked; try again: {0}")]
    Locked(#[source] Box<dyn Error + Send + Sync>),
    /// The tables of the fence are not there, or not up to date: only [`check`](super::check) says so.
    #[error("the tables of the fence are missing or out of date: run `fencing db migrate`")]
    Missing,
    /// The table of the marks or of the floor is lost. If it were created again, stale tokens would pass.
    #[error(
        "the database has lost {what}, which says which tokens are stale. Stop all writers. Then \
         restore it, or create it by the SQL that `fencing db migrate --print` prints. Then raise the marks above all \
         tokens that were granted (`fencing db marks raise`). If all leases are in this database, raise the floor as \
         well (`fencing db marks raise-floor`): it stands for marks that are missing, not for old ones that were \
         restored. Only then start the writers"
    )]
    MarksLost {
        /// The names of the tables.
        what: String,
    },
    /// The migrations were applied, and other tables, functions, procedures or triggers are lost, or look for the marks
    /// in another schema. On MySQL this is also the error of a user without EXECUTE on any of the procedures.
    #[error(
        "the database has lost {what}, or this user has no right to see them: check as the owner of the tables first. \
         If they are missing for the owner as well, {}run DELETE FROM _fencing_migrations, migrate again, which \
         creates them and changes no mark, and give all rights again. A dump may have left them out: mysqldump needs \
         --routines and --triggers",
        if .what.contains("fencing_leases") { KEEP_STOPPED } else { "" }
    )]
    Lost {
        /// Their names.
        what: String,
    },
    /// A migration was applied with another text, as by a build between two releases.
    #[error(
        "the text of migration {0} differs from the one that was applied. Run DELETE FROM \
         _fencing_migrations and migrate again: that applies all migrations again and changes no mark. \
         Then give all rights again"
    )]
    Changed(i64),
    /// The tables are up to date, but guard nothing: several servers of a cluster take writes, or a table was altered,
    /// and its engine has no transactions (MySQL), or it is not logged (PostgreSQL). It says what to do.
    #[error("the fence does not hold in this database: {0}")]
    Unguarded(String),
    /// A migration failed.
    #[error("migration failed: {0}")]
    Migration(#[source] sqlx::migrate::MigrateError),
    /// The database failed, or could not be reached.
    #[error("the migrations could not be checked or applied: {}", text(.0))]
    Database(#[source] sqlx::Error),
}

impl From<sqlx::Error> for MigrateError {
    fn from(error: sqlx::Error) -> MigrateError {
        match is_conflict(&error) {
            true => MigrateError::Locked(error.into()),
            false => MigrateError::Database(error),
        }
    }
}

impl From<sqlx::migrate::MigrateError> for MigrateError {
    fn from(error: sqlx::migrate::MigrateError) -> MigrateError {
        use sqlx::migrate::MigrateError as Failure;
        match error {
            Failure::Execute(error) => error.into(),
            Failure::ExecuteMigration(error, _) if is_conflict(&error) => error.into(),
            Failure::VersionMismatch(version) => MigrateError::Changed(version),
            error => MigrateError::Migration(error),
        }
    }
}
