//! A lease kept in the database that one has, with a fencing token: no Redis needed.
//!
//! ```no_run
//! # #[cfg(feature = "sqlite")]
//! # async fn work(pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
//! use fencing::{Resource, lock::sql::SqlLock, sql};
//!
//! sql::migrate(&pool).await?; // once, at start
//! let lock = SqlLock::new(pool.clone());
//! let invoice = Resource::new("invoice/42")?;
//! let lease = lock.acquire(&invoice).await?;
//! let mut tx = sql::begin(&pool, &invoice, lease.token()).await?;
//! // What is written here is refused once a newer lease has been at work.
//! # sqlx::query("SELECT 1").execute(&mut *tx).await?;
//! tx.commit().await?;
//! lease.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! One row per resource in the table `fencing_leases`, found through the connection's
//! search path as any table is. It is taken, extended and released by single statements
//! (procedures on MySQL), each committed for itself, on connections of the pool that no
//! lease keeps. It is never deleted, or its tokens would start again.
//!
//! **Fencing.** Tokens of a resource strictly grow for as long as the database forgets
//! nothing that it has committed, and are above the mark that `fencing_marks` has of it.
//! No clock is part of that. What a database that fails over to a replica that lags
//! behind, or is restored from a backup, has forgotten, it may grant again: keep the data
//! that the token protects in the same database, so that it forgets the writes as well.
//!
//! On MySQL and MariaDB a commit is on disk if the server's `innodb_flush_log_at_trx_commit`
//! is 1, as it is by default; no session can ask for more. With 0 or 2 a crash may forget
//! the last second.
//!
//! Exclusion rests on the database's clock and on its rate alone: the client counts from
//! before it has asked, on its own clock, and never compares the two. If the database's
//! clock jumps forward, leases end early for others, and two may be held at once until
//! the older one is renewed or lapses: the token tells them apart. If it jumps back, a
//! lock stays closed for longer, until it is renewed or released.
//!
//! On SQLite a process that is stopped in the middle of a statement keeps every other one
//! from writing, and so from locking, until it goes on or is killed.

mod attempt;
mod backend;
mod builder;
mod fault;
mod held;
mod in_flight;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod table;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use builder::Numbers;
use sqlx::Pool;
use table::LeaseTable;

use super::queues::Queues;
use super::{AcquireError, Health, Lease, Lock};
use crate::resource::Resource;
use crate::time::SystemClock;

pub use super::BuildError;
pub use backend::Database;
pub use builder::SqlLockBuilder;

/// A lock service in one database. Run [`migrate`](fn@crate::sql::migrate) first.
///
/// Clones share the pool and the local queues. Each attempt and each renewal needs a
/// connection of the pool for one statement. Where transactions use up the pool, give the
/// lock service one of its own, or leases are lost because they can't be renewed.
pub struct SqlLock<DB: Database> {
    table: Arc<LeaseTable<DB>>,
    queues: Arc<Queues>,
    numbers: Numbers,
}

impl<DB: Database> Clone for SqlLock<DB> {
    fn clone(&self) -> SqlLock<DB> {
        let (table, queues) = (Arc::clone(&self.table), Arc::clone(&self.queues));
        SqlLock { table, queues, numbers: self.numbers }
    }
}

impl<DB: Database> fmt::Debug for SqlLock<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlLock")
            .field("database", &self.table.name())
            .field("settings", &self.numbers.settings())
            .finish_non_exhaustive()
    }
}

impl<DB: Database> SqlLock<DB> {
    /// Leases in the database of this pool, with the default settings.
    #[must_use]
    pub fn new(pool: Pool<DB>) -> SqlLock<DB> {
        let table = LeaseTable::new(pool, Arc::new(SystemClock));
        SqlLock::with_numbers(table, Numbers::default())
    }

    /// What to set before the first lease.
    pub fn builder(pool: Pool<DB>) -> SqlLockBuilder<DB> {
        SqlLockBuilder::new(pool)
    }

    fn with_numbers(table: LeaseTable<DB>, numbers: Numbers) -> SqlLock<DB> {
        SqlLock { table: Arc::new(table), queues: Arc::default(), numbers }
    }

    /// The same lock service with another TTL: pool and queues are shared.
    ///
    /// # Errors
    /// [`BuildError`] if the TTL is out of bounds, or too short for the budget or drift.
    pub fn with_ttl(&self, ttl: Duration) -> Result<SqlLock<DB>, BuildError> {
        Ok(SqlLock { numbers: self.numbers.ttl(ttl).checked()?, ..self.clone() })
    }

    /// The same lock service with another wait limit of [`acquire`](SqlLock::acquire).
    ///
    /// # Errors
    /// [`BuildError`] if it is longer than a year.
    pub fn with_wait(&self, wait: Duration) -> Result<SqlLock<DB>, BuildError> {
        Ok(SqlLock { numbers: self.numbers.wait(wait).checked()?, ..self.clone() })
    }

    /// Whether the database answers and has the tables, within the budget.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn health(&self) -> Health {
        self.table.health(self.numbers.settings().budget).await
    }

    /// Acquires the lease of `resource`, waiting in a fair local queue and then for the
    /// holder, up to the wait limit.
    ///
    /// # Errors
    /// [`AcquireError`] of the last attempt: `Held`, or `NoQuorum` with the database's
    /// fault.
    ///
    /// # Cancel safety
    /// Dropped at any point, it leaves no lock behind for longer than the TTL and the
    /// lock-delay, counted from when the database ran the statement, and releases what
    /// it can.
    pub async fn acquire(&self, resource: &Resource) -> Result<Lease, AcquireError> {
        let settings = self.numbers.settings();
        self.queues.acquire(resource, &settings, || self.try_acquire(resource)).await
    }

    /// Acquires the lease of `resource` in one attempt.
    ///
    /// # Errors
    /// As for [`acquire`](SqlLock::acquire).
    ///
    /// # Cancel safety
    /// As for [`acquire`](SqlLock::acquire).
    pub async fn try_acquire(&self, resource: &Resource) -> Result<Lease, AcquireError> {
        let settings = self.numbers.settings();
        let grant = attempt::attempt(&self.table, resource, settings.terms(), settings.budget);
        super::attempt::attempt(resource, self.table.clock(), &settings, grant).await
    }
}

impl<DB: Database> Lock for SqlLock<DB> {
    async fn acquire(&self, resource: &Resource) -> Result<Lease, AcquireError> {
        SqlLock::acquire(self, resource).await
    }

    async fn try_acquire(&self, resource: &Resource) -> Result<Lease, AcquireError> {
        SqlLock::try_acquire(self, resource).await
    }
}
