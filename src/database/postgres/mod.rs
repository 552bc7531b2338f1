//! PostgreSQL.

mod errors;
mod fence;

use sqlx::Postgres;
use sqlx::postgres::PgConnectOptions;

pub use self::errors::{is_closing, is_conflict, is_starting, meaning};
pub use self::fence::{HIGHEST, PRESENT};
use super::quoted::hex;
use super::{Kind, Named};

impl Named for Postgres {
    const KIND: Kind = Kind::Postgres;

    fn name(options: &PgConnectOptions) -> String {
        let place = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        let database = options.get_database().unwrap_or(options.get_username());
        format!("postgres://{place}/{database}")
    }
}

/// Writes a text as an expression in SQL that needs no quoting.
///
/// Statements of this crate carry their values in their text. The driver would send a statement
/// with its values apart in two messages, and name it. A pooler in transaction mode (pgbouncer) may give
/// each message to another session, where that name stands for a statement of somebody else.
pub fn literal(text: impl AsRef<[u8]>) -> String {
    format!("convert_from(decode('{}', 'hex'), 'UTF8')", hex(text))
}
