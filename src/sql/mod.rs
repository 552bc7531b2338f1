//! The fence inside a database: the check shares the transaction of the write.
//!
//! A check outside of the write does not fence: the process may pause between the two. [`begin`] and [`admit`] compare
//! and raise the mark of a resource in your own transaction and lock it until that transaction ends: a newer token
//! waits for the write, and after a newer token the write is refused.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use fencing::{Resource, Token, sql};
//!
//! let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
//! sqlx::query("CREATE TABLE files (path TEXT, body TEXT)").execute(&pool).await?;
//! sql::migrate(&pool).await?; // once, at start
//!
//! let file = Resource::new("files/a")?;
//! let mut tx = sql::begin(&pool, &file, Token::new(34)?).await?;
//! sqlx::query("INSERT INTO files VALUES ('a', 'new')").execute(&mut *tx).await?;
//! tx.commit().await?;
//!
//! let refused = sql::begin(&pool, &file, Token::new(33)?).await;
//! assert!(matches!(refused, Err(sql::AdmitError::Stale(_))));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! The marks are in the table `fencing_marks`. On PostgreSQL the functions use the schema where [`migrate()`] created
//! it, whatever the caller's search path and temporary tables. The functions themselves are found through the path:
//! all writers must find the same ones. Marks are never lowered or deleted, except by an operator ([`lower()`],
//! [`Prune`]). You can bind and read a [`Token`](fencing_protocol::Token) as a `BIGINT`, and a
//! [`Resource`](fencing_protocol::Resource) as text.

mod admit;
mod error;
mod guarded;
mod installed;
mod marks;
mod migrate;
mod migrate_error;
mod protect;
mod prune;
mod refusal;
mod retry;
pub mod row;
pub mod statement;
mod transactions;
#[cfg(feature = "sqlite")]
mod writer;

pub use crate::database::Database;
pub use admit::{Presented, admit, admit_in_shadow, begin, present};
pub use error::AdmitError;
pub use guarded::{Guarded, guarded};
pub use marks::{Mark, SqlMarks, highest, lower, marks};
pub use migrate::{check, migrate, migrations, removal};
pub use migrate_error::MigrateError;
pub use protect::{NameError, Protect, ProtectError, Protected, protected};
pub use prune::{Prune, Pruned, raise_floor};
pub use refusal::stale;
pub use retry::{Retry, is_retryable, is_unavailable, retry};
#[cfg(feature = "sqlite")]
pub use writer::single_writer;
