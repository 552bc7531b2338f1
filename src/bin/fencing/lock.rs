use std::str::FromStr;
use std::time::Duration;

use fencing::lock::AcquireError;
use fencing::lock::sql::SqlLock;
use fencing::{Lease, Redlock, sql};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{MySql, Pool, Postgres, Sqlite};

use crate::args::{Chosen, Run, trimmed};
use crate::say;

/// The lock service that the command line asks for.
pub(crate) enum Service {
    Nodes(Redlock, Duration),
    Sqlite(SqlLock<Sqlite>, Pool<Sqlite>),
    Postgres(SqlLock<Postgres>, Pool<Postgres>),
    MySql(SqlLock<MySql>, Pool<MySql>),
}

/// How long what a dropped acquisition sends to a database may take.
const LAST: Duration = Duration::from_millis(250);

impl Service {
    /// Asks nobody yet.
    pub(crate) fn of(run: &Run) -> Result<Service, String> {
        match run.place.chosen()? {
            Chosen::Redis(urls) => nodes(run, &urls),
            Chosen::Database(url) => database(run, url.trim()),
        }
    }

    pub(crate) async fn acquire(&self, run: &Run) -> Result<Lease, AcquireError> {
        let once = run.wait.is_zero();
        match self {
            Service::Nodes(lock, _) if once => lock.try_acquire(&run.resource).await,
            Service::Nodes(lock, _) => lock.acquire(&run.resource).await,
            Service::Sqlite(lock, pool) => in_database(lock, pool, run).await,
            Service::Postgres(lock, pool) => in_database(lock, pool, run).await,
            Service::MySql(lock, pool) => in_database(lock, pool, run).await,
        }
    }

    /// Lets what a dropped acquisition releases reach the servers.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(match self {
            Service::Nodes(_, budget) => *budget,
            Service::Sqlite(..) | Service::Postgres(..) | Service::MySql(..) => LAST,
        })
        .await;
    }
}

fn nodes(run: &Run, urls: &[String]) -> Result<Service, String> {
    let budget = run.node_budget.unwrap_or(Duration::from_millis(50).min(run.ttl / 4));
    let lock = Redlock::builder()
        .redis(trimmed(urls))
        .namespace(&run.place.namespace)
        .ttl(run.ttl)
        .wait(run.wait)
        .node_budget(budget)
        .build();
    lock.map(|lock| Service::Nodes(lock, budget)).map_err(|error| error.to_string())
}

fn database(run: &Run, url: &str) -> Result<Service, String> {
    let wrong = |error: sqlx::Error| format!("--database: {error}");
    // The pool tries for so long to connect to a database that is down.
    let patience = run.node_budget.unwrap_or(Duration::from_secs(2)).min(run.ttl / 2);
    if url.starts_with("sqlite:") {
        if url.contains(":memory:") || url.contains("mode=memory") {
            return Err("--database: a database in memory keeps nobody else out".into());
        }
        let options = SqliteConnectOptions::from_str(url).map_err(wrong)?;
        let options = options.create_if_missing(true).busy_timeout(patience / 2);
        let pool = SqlitePoolOptions::new().max_connections(2).acquire_timeout(patience);
        let pool = pool.connect_lazy_with(options);
        return Ok(Service::Sqlite(lock(run, &pool)?, pool));
    }
    if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        let options = PgConnectOptions::from_str(url).map_err(wrong)?;
        let pool = PgPoolOptions::new().max_connections(2).acquire_timeout(patience);
        let pool = pool.connect_lazy_with(options);
        return Ok(Service::Postgres(lock(run, &pool)?, pool));
    }
    if url.starts_with("mysql:") || url.starts_with("mariadb:") {
        let options = MySqlConnectOptions::from_str(url).map_err(wrong)?;
        let pool = MySqlPoolOptions::new().max_connections(2).acquire_timeout(patience);
        let pool = pool.connect_lazy_with(options);
        return Ok(Service::MySql(lock(run, &pool)?, pool));
    }
    Err("--database: the URL begins with sqlite:, postgres: or mysql:".into())
}

fn lock<DB: fencing::lock::sql::Database>(
    run: &Run,
    pool: &Pool<DB>,
) -> Result<SqlLock<DB>, String> {
    let builder = SqlLock::builder(pool.clone()).ttl(run.ttl).wait(run.wait);
    let builder = match run.node_budget {
        Some(budget) => builder.budget(budget),
        None => builder,
    };
    builder.build().map_err(|error| error.to_string())
}

/// Where the tables are missing, or nothing is to be read from them, they are created
/// first. A user who may not create tables needs them to be there.
async fn in_database<DB>(
    lock: &SqlLock<DB>,
    pool: &Pool<DB>,
    run: &Run,
) -> Result<Lease, AcquireError>
where
    DB: fencing::lock::sql::Database + sql::Database,
{
    let ready = lock.health().await.has_quorum();
    let migrated = if ready { Ok(()) } else { sql::migrate(pool).await };
    let outcome = if run.wait.is_zero() {
        lock.try_acquire(&run.resource).await
    } else {
        lock.acquire(&run.resource).await
    };
    if let (Err(AcquireError::NoQuorum { .. }), Err(error)) = (&outcome, &migrated) {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        say::error(format_args!("{error}: {}", cause.unwrap_or_default()));
    }
    outcome
}
