use std::time::Duration;

use fencing::lock::redlock::{BuildError, MemoryNode};
use fencing::lock::sql::SqlLock;
use fencing::lock::{AcquireError, Health};
use fencing::{Lease, Redlock, Resource};
use sqlx::{MySql, Postgres, Sqlite};

/// How long a lease lasts if its client does not say.
const TTL: Duration = Duration::from_secs(5);

/// Where the leases come from.
#[derive(Clone)]
pub enum Locks {
    Nodes(Redlock),
    Sqlite(SqlLock<Sqlite>),
    Postgres(SqlLock<Postgres>),
    MySql(SqlLock<MySql>),
}

/// The same calls on each.
macro_rules! on {
    ($locks:expr, $lock:ident => $body:expr) => {
        match $locks {
            Locks::Nodes($lock) => $body,
            Locks::Sqlite($lock) => $body,
            Locks::Postgres($lock) => $body,
            Locks::MySql($lock) => $body,
        }
    };
}

impl Locks {
    /// On Redis nodes; without any, on five in this process.
    pub fn on_nodes(urls: &[&str]) -> Result<Locks, BuildError> {
        let builder = match urls {
            [] => Redlock::builder()
                .nodes((1..=5).map(|number| MemoryNode::new(format!("memory-{number}")))),
            urls => Redlock::builder().redis(urls),
        };
        // A client that sleeps is to lose its lease: nobody renews for it.
        Ok(Locks::Nodes(builder.renew(false).ttl(TTL).build()?))
    }

    pub fn in_sqlite(pool: &sqlx::SqlitePool) -> Result<Locks, BuildError> {
        Ok(Locks::Sqlite(SqlLock::builder(pool.clone()).renew(false).ttl(TTL).build()?))
    }

    pub fn in_postgres(pool: &sqlx::PgPool) -> Result<Locks, BuildError> {
        Ok(Locks::Postgres(SqlLock::builder(pool.clone()).renew(false).ttl(TTL).build()?))
    }

    pub fn in_mysql(pool: &sqlx::MySqlPool) -> Result<Locks, BuildError> {
        Ok(Locks::MySql(SqlLock::builder(pool.clone()).renew(false).ttl(TTL).build()?))
    }

    pub fn with_ttl(&self, ttl: Duration) -> Result<Locks, BuildError> {
        Ok(match self {
            Locks::Nodes(lock) => Locks::Nodes(lock.with_ttl(ttl)?),
            Locks::Sqlite(lock) => Locks::Sqlite(lock.with_ttl(ttl)?),
            Locks::Postgres(lock) => Locks::Postgres(lock.with_ttl(ttl)?),
            Locks::MySql(lock) => Locks::MySql(lock.with_ttl(ttl)?),
        })
    }

    /// One attempt, or as many as fit into `wait`.
    pub async fn acquire(&self, resource: &Resource, wait: Duration) -> Result<Lease, LeaseError> {
        on!(self, lock => if wait.is_zero() {
            Ok(lock.try_acquire(resource).await?)
        } else {
            Ok(lock.with_wait(wait)?.acquire(resource).await?)
        })
    }

    pub async fn health(&self) -> Health {
        on!(self, lock => lock.health().await)
    }
}

/// Why there is no lease.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Acquire(#[from] AcquireError),
}
