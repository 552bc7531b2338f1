//! Shared by the fence in a database (`sql`) and the leases in a database (`lock::sql`): which databases
//! there are, which statements each must have, and what its errors mean.

mod errors;
mod fence;
mod lease;
mod meaning;
#[cfg(feature = "mysql")]
pub mod mysql;
pub mod opening;
mod plain;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod protect;
pub mod quoted;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod text_row;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use sqlx::{Connection, Pool};

pub use errors::{meaning, text};
pub use fence::{FenceStatements, Migrations};
pub use lease::{AcquireAnswer, LeaseClaim, LeaseStatements, ReleaseAnswer};
pub use meaning::Meaning;
pub use protect::ProtectStatements;
pub use text_row::TextRow;

/// A database that can keep marks and leases: PostgreSQL, MySQL and MariaDB, SQLite.
///
/// Sealed: each needs statements, locks and a proof of its own.
pub trait Database: FenceStatements + LeaseStatements + ProtectStatements {
    /// Reads `{limit}` leases whose resource stands in the relation `{after}`, such as `=`, to `{resource}`. Columns:
    /// resource, token, the row's owner, the holder, and for how many milliseconds; and the parts
    /// where Rust has to split them: then the holder is the time in microseconds.
    const LEASES: &'static str;

    /// Ends the lease of this `{resource}`, `{owner}` and `{token}`, if it has not ended, records that in the audit, and
    /// returns a row then. It runs in a transaction.
    const END_LEASE: &'static str;

    /// Reads from the tables, to see whether that works.
    const PROBE: &'static str;

    /// Notifies all that listen of the release of `{resource}`, where the database can.
    const NOTIFY: Option<&'static str> = None;

    /// Returns the name of the database that these options lead to, without user and
    /// password.
    fn name(options: &<Self::Connection as Connection>::Options) -> String;

    /// Opens a connection of its own that listens, with the options of this pool, and returns the names of resources
    /// that are released. Fails where it does not receive what is sent through the pool.
    fn listen(
        pool: Pool<Self>,
    ) -> BoxFuture<'static, sqlx::Result<BoxStream<'static, sqlx::Result<String>>>> {
        drop(pool);
        let error = sqlx::Error::Configuration("this database sends no notifications".into());
        Box::pin(std::future::ready(Err(error)))
    }
}

/// A dialect of SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "a database whose feature is off has none")]
pub enum Dialect {
    MySql,
    Postgres,
    Sqlite,
}

impl Dialect {
    /// Writes a text as an expression that needs no quoting, whatever the session's settings are.
    pub fn literal(self, text: impl AsRef<[u8]>) -> String {
        let digits = hex::encode(text);
        match self {
            Dialect::MySql => format!("x'{digits}'"),
            Dialect::Postgres => format!("convert_from(decode('{digits}', 'hex'), 'UTF8')"),
            Dialect::Sqlite => format!("CAST(x'{digits}' AS TEXT)"),
        }
    }

    /// Writes a name, or NULL, for a query of the catalogue. MySQL compares it there as a text.
    pub fn catalogue(self, name: Option<&str>) -> String {
        match (self, name) {
            (_, None) => "NULL".into(),
            (Dialect::MySql, Some(name)) => format!("_utf8mb4 {}", self.literal(name)),
            (_, Some(name)) => self.literal(name),
        }
    }
}
