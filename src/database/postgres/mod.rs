//! PostgreSQL.
//!
//! Statements of this crate have their values in their text. The driver would send a statement with bound values in two
//! messages, under a name. A pooler in transaction mode (pgbouncer) may give each message to another session, where
//! that name is another client's statement. Several statements in one text are one transaction.

mod errors;
mod fence;
mod lease;
mod notifications;
mod protect;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Pool, Postgres};

pub use self::errors::{is_closing, is_conflict, is_starting, meaning};
pub use self::fence::{HIGHEST, PRESENT};
use super::Database;

impl Database for Postgres {
    const LEASES: &'static str = lease::LEASES;
    const END_LEASE: &'static str = lease::END_LEASE;
    const PROBE: &'static str = lease::PROBE;
    const NOTIFY: Option<&'static str> = Some(notifications::NOTIFY);

    fn name(options: &PgConnectOptions) -> String {
        let place = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        let database = options.get_database().unwrap_or(options.get_username());
        format!("postgres://{place}/{database}")
    }

    fn listen(
        pool: Pool<Postgres>,
    ) -> BoxFuture<'static, sqlx::Result<BoxStream<'static, sqlx::Result<String>>>> {
        Box::pin(notifications::listen(pool))
    }
}
