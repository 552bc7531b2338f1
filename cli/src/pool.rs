use std::time::Duration;

use fencing::sql::is_retryable;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::pool::PoolOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Database, MySqlPool, PgPool, SqlitePool};
use tokio::time::timeout;

use crate::exit::Failure;

/// The timeout for a connection, or for a lock of SQLite.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of a call that takes no long time by itself, its waits for a connection and for a lock included.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(crate) enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
    MySql(MySqlPool),
}

#[derive(Debug, clap::Args)]
pub(crate) struct DatabaseUrl {
    /// The database: sqlite:PATH, postgres://... or mysql://... For TLS: ?sslmode=require (MySQL: ?ssl-mode=REQUIRED).
    #[arg(long = "database", value_name = "URL", env = "FENCING_DATABASE", hide_env_values = true)]
    pub(crate) url: String,
}

impl DatabaseUrl {
    pub(crate) async fn connect(&self, create: bool) -> Result<Pool, Failure> {
        connect("--database", &self.url, create, 1).await
    }
}

/// Runs the same call on any of them.
macro_rules! on {
    ($pool:expr, $name:ident => $body:expr) => {
        match $pool {
            $crate::pool::Pool::Sqlite($name) => $body,
            $crate::pool::Pool::Postgres($name) => $body,
            $crate::pool::Pool::MySql($name) => $body,
        }
    };
}
pub(crate) use on;

pub(crate) enum DatabaseKind {
    Sqlite,
    Postgres,
    MySql,
}

pub(crate) fn kind(url: &str) -> Result<DatabaseKind, Failure> {
    match url.split(':').next() {
        Some("sqlite") => Ok(DatabaseKind::Sqlite),
        Some("postgres" | "postgresql") => Ok(DatabaseKind::Postgres),
        Some("mysql" | "mariadb") => Ok(DatabaseKind::MySql),
        _ => Err(Failure::usage("--database: the URL must begin with sqlite:, postgres: or mysql:")),
    }
}

/// Connects to a database with up to `most` connections, to SQLite with one. Errors name the URL by `whose`.
pub(crate) async fn connect(whose: &str, url: &str, create: bool, most: u32) -> Result<Pool, Failure> {
    let wrong = |error: sqlx::Error| Failure::usage(format_args!("{whose}: {error}"));
    let closed = |error: sqlx::Error| {
        if is_retryable(&error) {
            return error.into();
        }
        let advice = ". If there never was one, `fencing db migrate` creates it, without mode=rw in the URL; a new file begins again with token 1";
        let advice = if create { "" } else { advice };
        Failure::unavailable(format_args!("the SQLite file cannot be opened: {error}{advice}"))
    };
    Ok(match kind(url)? {
        DatabaseKind::Sqlite => {
            let options: SqliteConnectOptions = url.parse().map_err(wrong)?;
            // A URL with mode=rw wants a file that is there.
            let has_mode = url.split_once('?').is_some_and(|(_, query)| query.contains("mode="));
            let options = if create && has_mode { options } else { options.create_if_missing(create) };
            let options = options.busy_timeout(CONNECT_TIMEOUT);
            let pool = PoolOptions::new().max_connections(1).acquire_timeout(CONNECT_TIMEOUT);
            Pool::Sqlite(pool.connect_with(options).await.map_err(closed)?)
        }
        DatabaseKind::Postgres => Pool::Postgres(reach(url.parse().map_err(wrong)?, most).await?),
        DatabaseKind::MySql => {
            let options: MySqlConnectOptions = url.parse().map_err(wrong)?;
            let unnamed = format_args!("{whose}: the URL names no database: mysql://HOST/DATABASE");
            Failure::usage_unless(options.get_database().is_some(), unnamed)?;
            Pool::MySql(reach(options, most).await?)
        }
    })
}

/// Connects once: a pool would try again until its time is up, and not say why.
async fn reach<D: Database>(
    options: <D::Connection as Connection>::Options,
    most: u32,
) -> Result<sqlx::Pool<D>, Failure> {
    Err(match timeout(CONNECT_TIMEOUT, D::Connection::connect_with(&options)).await {
        Ok(Ok(conn)) => {
            let _ = conn.close().await;
            let pool = PoolOptions::new().max_connections(most).acquire_timeout(CONNECT_TIMEOUT);
            return Ok(pool.connect_lazy_with(options));
        }
        Ok(Err(sqlx::Error::Database(error))) => {
            let why = format!("the database server refused the connection: {}", error.message());
            Failure { message: why, ..sqlx::Error::Database(error).into() }
        }
        Ok(Err(error)) => Failure::unavailable(format_args!("the database cannot be reached: {error}")),
        Err(_) => {
            Failure::unavailable(format_args!("the database cannot be reached: no answer within {CONNECT_TIMEOUT:?}"))
        }
    })
}

/// Waits for a database, which may stop in the middle, or for another service.
pub(crate) async fn with_timeout<T, E: Into<Failure>>(call: impl Future<Output = Result<T, E>>) -> Result<T, Failure> {
    with_timeout_of(ANSWER_TIMEOUT, call).await
}

pub(crate) async fn with_timeout_of<T, E: Into<Failure>>(
    limit: Duration,
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, Failure> {
    let late = |_| Failure::unavailable("the server timed out; if this was a change, it may have been made");
    timeout(limit, call).await.map_err(late)?.map_err(E::into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Status;

    #[tokio::test(start_paused = true)]
    async fn a_change_without_an_answer_may_have_been_made() {
        let Failure { status, message } = with_timeout::<(), Failure>(std::future::pending()).await.unwrap_err();
        assert_eq!(status, Status::UNAVAILABLE);
        assert!(message.ends_with("timed out; if this was a change, it may have been made"), "{message}");
    }
}
