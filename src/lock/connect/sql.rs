use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::Fault;
use sqlx::pool::PoolOptions;
use sqlx::{ConnectOptions as _, Connection};
use tokio::time::timeout;

use super::{ConnectError, ConnectOptions, Connecting};
use crate::database::Database;
use crate::lock::operator::Operator;
use crate::lock::service::api::Lock;
use crate::lock::settings::Settings;
use crate::lock::sql::SqlLock;
use crate::sql;

/// The connections shared by the leases: each needs one for a single statement at a time.
const CONNECTIONS: u32 = 4;
/// Time for which the pool tries to connect without a budget, unless the wait limit is shorter.
const BUDGET: Duration = Duration::from_secs(2);
const LEAST: Duration = Duration::from_millis(500);
/// Time limit for the tables: others may keep them locked for 10 s.
const MIGRATION: Duration = Duration::from_secs(20);

impl ConnectOptions {
    pub(super) fn connect_limit(&self) -> Duration {
        let Settings { budget, wait, ttl, .. } = self.settings;
        budget.unwrap_or(BUDGET.min(wait.max(LEAST))).min(ttl / 2)
    }
}

/// The options of a connection to one of these databases.
pub(super) type ServerOptions<DB> = <<DB as sqlx::Database>::Connection as Connection>::Options;

#[allow(dead_code, reason = "unused with SQLite alone")]
pub(super) fn open<DB: Database>(options: &ConnectOptions) -> Connecting<'_> {
    Box::pin(async { open_with::<DB>(options, parsed::<DB>(options)?).await })
}

pub(super) fn parsed<DB: Database>(options: &ConnectOptions) -> Result<ServerOptions<DB>, ConnectError> {
    options.url.parse().map_err(|error: sqlx::Error| options.unusable(error.to_string()))
}

pub(super) fn operator<DB: Database>(options: &ConnectOptions) -> Result<Arc<dyn Operator>, ConnectError> {
    let pool = PoolOptions::<DB>::new().max_connections(1);
    let pool = pool.acquire_timeout(options.connect_limit());
    Ok(Arc::new(pool.connect_lazy_with(parsed::<DB>(options)?)))
}

/// Opens a lock service in a database. Each opening checks that its tables exist and are logged: they may have been
/// altered.
pub(super) async fn open_with<DB: Database>(
    options: &ConnectOptions,
    server: ServerOptions<DB>,
) -> Result<Arc<dyn Lock>, ConnectError> {
    let limit = options.connect_limit();
    let pool = PoolOptions::<DB>::new().max_connections(CONNECTIONS).acquire_timeout(limit);
    let pool = pool.connect_lazy_with(server);
    let mut builder = SqlLock::builder(pool.clone());
    builder.settings = Settings { defaults: builder.settings.defaults, ..options.settings.clone() };
    let lock = Arc::new(builder.build()?);
    let migrated = async {
        // The pool retries until its time limit, and does not report the cause.
        let connection = timeout(limit, pool.connect_options().connect()).await;
        drop(connection.unwrap_or(Err(sqlx::Error::PoolTimedOut))?);
        Ok(timeout(MIGRATION, sql::migrate(&pool)).await.map_err(|_| Fault::TimedOut)??)
    };
    match migrated.await {
        Ok(()) => Ok(lock),
        Err(source) => Err(ConnectError::NotReady { lock, source }),
    }
}
