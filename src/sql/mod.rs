//! The fence inside a database: the check shares the transaction of the write.
//!
//! A check that stands outside the write is no fence: the process may pause between the
//! two. [`admit`] compares and raises the mark of a resource in the caller's own
//! transaction and locks it until that transaction ends, so that a newer token waits for
//! the write, or the write is refused.
//!
//! ```no_run
//! # #[cfg(feature = "sqlite")]
//! # async fn write(
//! #     pool: sqlx::SqlitePool, resource: fencing::Resource, token: fencing::Token,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! fencing::sql::migrate(&pool).await?; // once, at start
//!
//! let mut tx = pool.begin().await?;
//! fencing::sql::admit(&mut tx, &resource, token).await?; // Err(Stale) refuses
//! sqlx::query("UPDATE files SET body = $1 WHERE path = $2")
//!     .bind("new")
//!     .bind(resource.as_str())
//!     .execute(&mut *tx)
//!     .await?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The marks stand in the table `fencing_marks`, found through the connection's search
//! path as any table is: all who write must find the same one. Marks are never lowered
//! or deleted.

mod admit;
mod backend;
mod error;
mod fence_error;
mod list;
mod marks;
mod message;
mod migrate;
#[cfg(feature = "mysql")]
mod mysql;
mod opening;
#[cfg(feature = "postgres")]
mod postgres;
mod protect;
mod retry;
pub mod row;
#[cfg(feature = "sqlite")]
mod sqlite;
pub mod statement;
mod transaction;
mod without_feature;

#[cfg(not(feature = "mysql"))]
use without_feature as mysql;
#[cfg(not(feature = "postgres"))]
use without_feature as postgres;
#[cfg(not(feature = "sqlite"))]
use without_feature as sqlite;

pub use admit::{admit, begin, highest, present};
pub use backend::Database;
pub use error::{AdmitError, MigrateError, stale};
pub use list::{Mark, marks};
pub use marks::SqlMarks;
pub use migrate::{migrate, migrations};
pub use protect::{NameError, Protect};
pub use retry::{Retry, is_retryable, retry};
pub use transaction::transaction;
