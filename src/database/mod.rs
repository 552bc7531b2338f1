//! The ground that the fence in a database (`sql`) and the leases in a database
//! (`lock::sql`) stand on: which databases there are, what each must be able to do for the
//! two, and what its errors mean.

mod codes;
mod fence;
mod lease;
mod meaning;
#[cfg(feature = "mysql")]
pub mod mysql;
pub mod opening;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod quoted;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod texts;

use sqlx::Connection;

pub use codes::{meaning, text};
pub use fence::{AdmitAnswer, BeginAdmitted, FenceStatements, Migrations, Prunable, Row, Texts};
pub use lease::{AcquireAnswer, Channels, Claim, LeaseStatements, ReleaseAnswer, millis};
pub use meaning::Meaning;
#[cfg(feature = "postgres")]
pub use postgres::literal;

/// A database that can keep marks and leases: PostgreSQL, MySQL and MariaDB, SQLite.
///
/// Sealed: each needs statements, locks and a proof of its own.
pub trait Database: Named + FenceStatements + LeaseStatements {}

impl<DB: Named + FenceStatements + LeaseStatements> Database for DB {}

/// Which database it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "a database whose feature is off is never one")]
pub enum Kind {
    MySql,
    Postgres,
    Sqlite,
}

/// A database has a kind, and a name for operators.
pub trait Named: sqlx::Database {
    const KIND: Kind;

    /// Returns the name of the database that these options lead to, without user and
    /// password.
    fn name(options: &<Self::Connection as Connection>::Options) -> String;
}
