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
    pub(super) fn connect_limit(&self) -> Duration {
        let Settings { budget, wait, ttl, .. } = self.settings;
        budget.unwrap_or(BUDGET.min(wait.max(LEAST))).min(ttl / 2)
    }

    pub(super) fn pool<DB: sqlx::Database>(&self) -> PoolOptions<DB> {
        PoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(self.connect_limit())
    }
}

/// Opens a lock service in the database of this pool. Where its tables are missing, or nothing
/// can be read from them, it is ready when they have been created.
pub(super) fn open<DB: Database>(
    options: &ConnectOptions,
    pool: Pool<DB>,
) -> Result<Connected, ConnectError> {
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
pub(super) fn unusable(scheme: &'static str) -> impl Fn(sqlx::Error) -> ConnectError {
    move |error| ConnectError::Url { scheme, problem: error.to_string() }
}
