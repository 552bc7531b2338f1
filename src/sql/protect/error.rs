use crate::database::protect::TableName;
use crate::database::{Meaning, meaning, text};
use crate::sql::AdmitError;

/// Why a table was not protected. Nothing was changed, unless the variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtectError {
    /// The table does not exist, or you may not read it.
    #[error("the table {table} does not exist, or you may not read it: {}", text(.source))]
    Table {
        /// The table.
        table: String,
        /// The database's message.
        source: sqlx::Error,
    },
    /// The table does not have the column, or you may not read it.
    #[error(
        "the table {table} has no column {column}, or you may not read it: {}",
        text(.source)
    )]
    Column {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The database's message.
        source: sqlx::Error,
    },
    /// The triggers could not guard this table as it is, or it is already protected and names its rows differently.
    #[error("the table {table} can't be protected: {why}")]
    Unguardable {
        /// The table.
        table: String,
        /// Why, and what to do.
        why: String,
    },
    /// Triggers in shadow mode need PostgreSQL: warnings of triggers in MySQL or SQLite are lost.
    #[error(
        "this database has no triggers in shadow mode: their warnings would be lost. Call \
         fencing::sql::admit_in_shadow in the writers"
    )]
    NoShadow,
    /// Others used the table for longer than a second, as long transactions and backups do.
    #[error(
        "other transactions kept the table locked for longer than a second; try again when they have ended: {}",
        text(.0)
    )]
    Locked(#[source] sqlx::Error),
    /// The triggers were not created, a table or function of the fence is missing, or the database could not be
    /// reached. On MySQL some triggers may have been created.
    #[error("the table was not protected: {0}")]
    Database(#[source] AdmitError),
}

impl ProtectError {
    /// Reads the error of a statement that reads the table, or this column of it.
    pub(super) fn of_check(table: &TableName, column: Option<&str>, source: sqlx::Error) -> ProtectError {
        let table = table.name.clone();
        match (meaning(&source), column.map(str::to_owned)) {
            (None | Some(Meaning::Conflict | Meaning::Closing), _) => source.into(),
            (_, Some(column)) => ProtectError::Column { table, column, source },
            (_, None) => ProtectError::Table { table, source },
        }
    }
}

impl From<sqlx::Error> for ProtectError {
    fn from(error: sqlx::Error) -> ProtectError {
        match AdmitError::from(error) {
            AdmitError::Retryable(error) => ProtectError::Locked(error),
            error => ProtectError::Database(error),
        }
    }
}
