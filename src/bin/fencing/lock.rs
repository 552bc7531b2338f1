use std::str::FromStr;
use std::time::Duration;

use fencing::lock::sql::SqlLock;
use fencing::lock::{AcquireError, Fault, NodeCause};
use fencing::{Lease, Redlock, sql};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{MySql, Pool, Postgres, Sqlite};
use tokio::time::{Instant, sleep, timeout};

use crate::args::{Chosen, Run, trimmed};
use crate::duration::about;
use crate::say;

/// The lock service that the command line asks for.
pub(crate) enum Service {
    Nodes(Redlock),
    Sqlite(SqlLock<Sqlite>, Pool<Sqlite>),
    Postgres(SqlLock<Postgres>, Pool<Postgres>),
    MySql(SqlLock<MySql>, Pool<MySql>),
}

/// How long what a dropped acquisition sends to a database may take.
const LAST: Duration = Duration::from_millis(250);
/// How long what is on its way to nodes may take.
const LAST_ON_NODES: Duration = Duration::from_secs(2);

impl Service {
    /// Asks nobody yet.
    pub(crate) fn of(run: &Run) -> Result<Service, String> {
        match run.place.chosen()? {
            Chosen::Redis(urls) => nodes(run, &urls),
            Chosen::Database(url) => database(run, url.trim()),
        }
    }

    pub(crate) async fn acquire(&self, run: &Run) -> Result<Lease, AcquireError> {
        match self {
            Service::Nodes(lock) => patiently(lock, run).await,
            Service::Sqlite(lock, pool) => in_database(lock, pool, run).await,
            Service::Postgres(lock, pool) => in_database(lock, pool, run).await,
            Service::MySql(lock, pool) => in_database(lock, pool, run).await,
        }
    }

    /// Lets what was released, and a node that is being brought back, come to an end.
    pub(crate) async fn settle(&self) {
        match self {
            Service::Nodes(lock) => drop(timeout(LAST_ON_NODES, lock.settle()).await),
            // What a lease releases there is waited for.
            Service::Sqlite(..) | Service::Postgres(..) | Service::MySql(..) => {}
        }
    }

    /// The same where an acquisition was dropped.
    pub(crate) async fn settle_dropped(&self) {
        match self {
            Service::Nodes(..) => self.settle().await,
            Service::Sqlite(..) | Service::Postgres(..) | Service::MySql(..) => sleep(LAST).await,
        }
    }
}

/// Waits for the lock. Says once if it is nodes that are waited for, as that can be long, and
/// ends where no wait helps.
async fn patiently(lock: &Redlock, run: &Run) -> Result<Lease, AcquireError> {
    const SLICE: Duration = Duration::from_secs(1);
    const PAUSE: Duration = Duration::from_millis(100);
    let (start, mut said) = (Instant::now(), false);
    loop {
        let left = run.wait.saturating_sub(start.elapsed());
        let outcome = match run.wait.is_zero() {
            true => lock.try_acquire(&run.resource).await,
            false => {
                let slice = lock.with_wait(left.min(SLICE)).unwrap_or_else(|_| lock.clone());
                slice.acquire(&run.resource).await
            }
        };
        let last = left <= SLICE || gone(lock, &outcome).await;
        if let Some(closed) = outcome.as_ref().err().and_then(closed).filter(|_| !said) {
            let waiting = if last { "" } else { "waiting: " };
            say::error(format_args!("{waiting}{closed}"));
            said = true;
        }
        if outcome.is_ok() || last {
            return outcome;
        }
        sleep(PAUSE).await;
    }
}

/// Whether so many nodes have become another fleet's that no wait helps.
async fn gone(lock: &Redlock, outcome: &Result<Lease, AcquireError>) -> bool {
    let elsewhere =
        |cause: &&NodeCause| matches!(cause.cause, Fault::Moved { .. } | Fault::OtherFleet { .. });
    let Err(AcquireError::NoQuorum { causes, .. }) = outcome else { return false };
    if causes.iter().find(elsewhere).is_none() {
        return false;
    }
    let health = lock.health().await;
    let left = health.fleet.len() - health.causes.iter().filter(elsewhere).count();
    left < health.needed
}

/// For how long too few nodes grant because some are quarantined, and how that is skipped.
fn closed(error: &AcquireError) -> Option<String> {
    let AcquireError::NoQuorum { needed, granted, causes, .. } = error else { return None };
    let mut times: Vec<Duration> = causes
        .iter()
        .filter_map(|cause| match cause.cause {
            Fault::Quarantined(left) => Some(left),
            _ => None,
        })
        .collect();
    times.sort_unstable();
    let time = times.get(needed.saturating_sub(granted + 1)).or(times.last())?;
    Some(format!(
        "too few nodes grant for another {}, until the locks that they may have forgotten have \
         expired; `fencing fleet init` skips that if they are new, and else `fencing fleet admit \
         --now` if no lock is held",
        about(*time)
    ))
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
    lock.map(Service::Nodes).map_err(|error| error.to_string())
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
