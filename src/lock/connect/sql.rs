use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::{ConnectOptions as _, Pool};
use tokio::time::timeout;

use super::{ConnectError, ConnectOptions, Connected};
use crate::database::Database;
use crate::lock::settings::Settings;
use crate::lock::sql::SqlLock;
use crate::sql;

/// How many connections the leases share: each needs one for a single statement at a time.
const CONNECTIONS: u32 = 4;
/// How long the pool tries to connect where no budget is set, and where nobody waits for the lock for so long.
const BUDGET: Duration = Duration::from_secs(2);
const LEAST: Duration = Duration::from_millis(500);

impl ConnectOptions {
    /// Returns how long the pool tries to connect.
    fn connect_limit(&self) -> Duration {
        let Settings { budget, wait, ttl, .. } = self.settings;
        budget.unwrap_or(BUDGET.min(wait.max(LEAST))).min(ttl / 2)
    }

    fn pool<DB: sqlx::Database>(&self) -> PoolOptions<DB> {
        PoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(self.connect_limit())
    }
}

#[cfg(feature = "postgres")]
pub(super) fn postgres(options: &ConnectOptions) -> Result<Connected, ConnectError> {
    let server: sqlx::postgres::PgConnectOptions =
        options.url.parse().map_err(unusable("postgres"))?;
    open(options, options.pool::<sqlx::Postgres>().connect_lazy_with(server))
}

#[cfg(feature = "mysql")]
pub(super) fn mysql(options: &ConnectOptions) -> Result<Connected, ConnectError> {
    let server: sqlx::mysql::MySqlConnectOptions =
        options.url.parse().map_err(unusable("mysql"))?;
    open(options, options.pool::<sqlx::MySql>().connect_lazy_with(server))
}

#[cfg(feature = "sqlite")]
pub(super) fn sqlite(options: &ConnectOptions) -> Result<Connected, ConnectError> {
    let file: sqlx::sqlite::SqliteConnectOptions =
        options.url.parse().map_err(unusable("sqlite"))?;
    let name = file.get_filename().to_string_lossy().into_owned();
    // The driver gives a database in memory a name of its own; without a name it is temporary.
    if name.is_empty() || name.contains("sqlx-in-memory") || options.url.contains("mode=memory") {
        let problem = "a database in memory keeps no other process out; use memory: for leases \
                       within one process";
        return Err(ConnectError::Url { scheme: "sqlite", problem: problem.into() });
    }
    if let Some(folder) = file.get_filename().parent()
        && !folder.as_os_str().is_empty()
        && !folder.is_dir()
    {
        let problem = format!("there is no folder {}", folder.display());
        return Err(ConnectError::Url { scheme: "sqlite", problem });
    }
    let file = file.create_if_missing(true).busy_timeout(options.connect_limit() / 2);
    open(options, options.pool::<sqlx::Sqlite>().connect_lazy_with(file))
}

/// Opens a lock service in the database of this pool. Where its tables are missing, or nothing
/// can be read from them, it is ready when they have been created.
fn open<DB: Database>(options: &ConnectOptions, pool: Pool<DB>) -> Result<Connected, ConnectError> {
    let mut builder = SqlLock::builder(pool.clone());
    builder.settings = options.settings.with_defaults_of(&builder.settings);
    let lock = builder.build()?;
    let opened = lock.clone();
    let limit = options.connect_limit();
    let ready = async move {
        if lock.health().await.has_quorum() {
            return Ok(());
        }
        // The pool tries again until its time is over, and does not say why it failed.
        let connection = timeout(limit, pool.connect_options().connect()).await;
        drop(connection.unwrap_or(Err(sqlx::Error::PoolTimedOut))?);
        Ok(sql::migrate(&pool).await?)
    };
    Ok(Connected { lock: std::sync::Arc::new(opened), ready: Box::pin(ready) })
}

/// Returns the error of a URL that the driver could not read.
fn unusable(scheme: &'static str) -> impl Fn(sqlx::Error) -> ConnectError {
    move |error| ConnectError::Url { scheme, problem: error.to_string() }
}
