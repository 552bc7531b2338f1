//! Shared by the fence in a database (`sql`) and the leases in a database (`lock::sql`): which databases
//! there are, which statements each must have, and what its errors mean.

mod dialect;
mod errors;
mod fence;
mod lease;
mod meaning;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod protect;
mod schema;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use dialect::{Dialect, TextRow, fill, open_transaction, procedure_connection, quote, unquote};
pub use errors::{explain, is_conflict, meaning};
pub use fence::{FenceStatements, Opening};
pub use lease::{AcquireAnswer, LeaseClaim, LeaseStatements, ReleaseAnswer};
pub use meaning::{Meaning, NO_FLOOR};
pub use protect::ProtectStatements;
pub use schema::{Migrations, Schema};

/// A database that can keep marks and leases: PostgreSQL, MySQL and MariaDB, SQLite.
///
/// Sealed: each needs statements, locks and a proof of its own.
pub trait Database: Schema + FenceStatements + LeaseStatements + ProtectStatements {}

impl<DB: Schema + FenceStatements + LeaseStatements + ProtectStatements> Database for DB {}
