//! PostgreSQL.
//!
//! Statements of this crate have their values in their text. The driver would send a statement with bound values in two
//! messages, under a name. A pooler in transaction mode (pgbouncer) may give each message to another session, where
//! that name is another client's statement. Several statements in one text are one transaction.

mod dialect;
mod fence;
mod lease;
mod protect;
mod schema;

pub use self::dialect::{meaning, meaning_of};
pub use self::fence::PRESENT;
