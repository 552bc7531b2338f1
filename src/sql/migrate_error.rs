use std::error::Error;

use crate::database::{explain, is_conflict};

/// What to do first, and what at the end, if `fencing_leases` is lost.
const STOP_CLIENTS: &str = "stop all clients, ";
const RAISE_FLOOR: &str = ", then, if all leases are in this database, run `fencing db marks raise-floor --yes` (or lost \
                           tokens are granted again), and start the clients";

/// Why the tables were not brought up to date. Nothing changed, unless it says so; on MySQL, part may have been done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// Another session kept the database locked for too long.
    #[error("another session kept the database locked; try again: {0}")]
    Locked(#[source] Box<dyn Error + Send + Sync>),
    /// The tables of the fence are not there, or not up to date: only [`check`](super::check) says so.
    #[error(
        "the tables of the fence are missing or out of date: run `fencing db migrate`; if they were lost, restore them first"
    )]
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
         creates them and changes no mark, and give all rights again{}. A dump may have left them out: mysqldump needs \
         --routines and --triggers. If the database was restored, see \"Marks are lost\" in the runbook",
        if .what.contains("fencing_leases") { STOP_CLIENTS } else { "" },
        if .what.contains("fencing_leases") { RAISE_FLOOR } else { "" }
    )]
    Lost {
        /// Their names.
        what: String,
    },
    /// A migration was applied with another text, as by a build between two releases.
    #[error(
        "the text of migration {0} differs from the one that was applied. Run DELETE FROM _fencing_migrations and \
         migrate again: that applies all migrations again and changes no mark. Then give all rights again"
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
    #[error("the migrations could not be checked or applied: {}", explain(.0))]
    Database(#[source] sqlx::Error),
}

impl From<sqlx::Error> for MigrateError {
    fn from(error: sqlx::Error) -> MigrateError {
        if is_conflict(&error) { MigrateError::Locked(error.into()) } else { MigrateError::Database(error) }
    }
}

impl From<sqlx::migrate::MigrateError> for MigrateError {
    fn from(error: sqlx::migrate::MigrateError) -> MigrateError {
        type Failure = sqlx::migrate::MigrateError;
        match error {
            Failure::Execute(error) => error.into(),
            Failure::ExecuteMigration(error, _) if is_conflict(&error) => error.into(),
            Failure::VersionMismatch(version) => MigrateError::Changed(version),
            error => MigrateError::Migration(error),
        }
    }
}
