//! A lease with a fencing token, kept in the database that you have already: you need no Redis.
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
//! // Writes here are refused once a newer lease has written.
//! # sqlx::query("SELECT 1").execute(&mut *tx).await?;
//! tx.commit().await?;
//! lease.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! There is one row per resource in the table `fencing_leases`. It is acquired, renewed and released by functions on
//! PostgreSQL, procedures on MySQL, and short transactions on SQLite, each on a connection of the pool and committed
//! separately; no lease keeps a connection. A row is never deleted, or its tokens would start again. Clients that share
//! a lock each have a part in its row, with its own expiry; each renewal of a part rewrites the row.
//!
//! **Fencing.** Tokens of a resource strictly grow for as long as the database forgets nothing that it has committed,
//! and are above its mark in `fencing_marks`. No clock is involved. A failover to a lagging replica, or a restore from
//! a backup, loses tokens whose holders still work. PostgreSQL detects another timeline or server, MySQL and MariaDB
//! another `server_id`, and the next grant raises the floor above the lost tokens. If a copy of the files replaces the
//! server, raise the floor by hand before clients return (`fencing db marks raise-floor`, docs/guide/runbook.md). Keep the
//! data that the token protects in the same database: a failover that loses tokens then loses the writes as well.
//!
//! On MySQL and MariaDB a commit is on disk if the server's `innodb_flush_log_at_trx_commit` is 1, as it is by default;
//! no session can ask for more. With 0 or 2 a crash may forget the last second.
//!
//! Exclusion depends on the rate of the database's clock: the client counts from before its request, on its own clock,
//! and never compares the two. If the database's clock jumps forward, other clients see leases end early, and two may
//! be held at once until the older one is renewed or ends: the token distinguishes them. If the clock is set back, the
//! row seems to be held for longer than any grant allows. The next client that asks for the lock notes that, and the
//! lock is free when the TTL of that grant and its lock-delay have passed since then: never before its holder's time
//! ends. A renewal corrects the row. For leases granted or renewed while the clock was behind, its correction is a jump
//! forward. A failover is a jump by the difference of the two servers' clocks.
//!
//! On SQLite each change is one statement, which a thread of the driver carries out even if the runtime is blocked.
//! Only a process stopped during a change blocks all other writers, and so all locks, until it goes on or is killed.

mod backend;
mod fault;
mod listener;
mod operator;
mod table;

use std::sync::Arc;
use std::time::Duration;

use sqlx::Pool;
use table::LeaseTable;

use super::service::LockService;
use super::settings::{Settings, settings_setters};
use super::wait::release_notifications::{ReleaseNotifications, Source};
use super::wait::subscriptions::Notifies;
use crate::holder::{own_name, process_name};

pub use super::settings::BuildError;
pub use crate::database::Database;

/// A lock service in one database. Run [`migrate`](fn@crate::sql::migrate) first.
///
/// Clones share the pool and the local queues. Each attempt and renewal takes a pool connection for a statement. If
/// transactions use up the pool, renewals and releases open one more connection, which lasts until the pool is closed
/// or the last clone dropped: allow each service one connection more than its pool has. An attempt waits for the pool.
/// Close the pool only after your leases are released: then none is renewed or released, and each ends with its TTL.
pub type SqlLock<DB> = LockService<Arc<LeaseTable<DB>>>;

impl<DB: Database> SqlLock<DB> {
    /// Returns a lock service in the database of this pool, with the default settings.
    #[must_use]
    pub fn new(pool: Pool<DB>) -> SqlLock<DB> {
        let mut builder = SqlLock::builder(pool);
        builder.settings.holder = Some(own_name().unwrap_or_else(|error| {
            tracing::warn!(%error, "locks are held under the name of this process");
            process_name()
        }));
        builder.serve()
    }

    /// Returns a builder, which takes the settings.
    pub fn builder(pool: Pool<DB>) -> SqlLockBuilder<DB> {
        SqlLockBuilder { pool, settings: Settings::new("budget", (BUDGET, 2)) }
    }
}

/// The budget where none is set: this, or half of a short TTL.
const BUDGET: Duration = Duration::from_secs(2);

/// Builds a [`SqlLock`].
#[derive(Clone)]
#[must_use]
pub struct SqlLockBuilder<DB: Database> {
    pool: Pool<DB>,
    pub(super) settings: Settings,
}

impl<DB: Database> SqlLockBuilder<DB> {
    settings_setters!(budget);

    /// Builds the lock service. It asks the database with the first acquisition.
    ///
    /// # Errors
    /// [`BuildError`] says which value does not fit, and why.
    pub fn build(self) -> Result<SqlLock<DB>, BuildError> {
        Ok(SqlLockBuilder { settings: self.settings.checked()?, ..self }.serve())
    }

    fn serve(self) -> SqlLock<DB> {
        let pool = self.pool.clone();
        let table = Arc::new(LeaseTable::new(self.pool, Arc::clone(&self.settings.clock)));
        let source = || Source::new(&table.name, move || listener::open::<DB>(pool.clone()));
        let sources = DB::NOTIFY.map(|_| source()).into_iter().collect();
        let notifications = Arc::new(ReleaseNotifications::new(1, Notifies::Everyone, sources));
        let outstanding = table.in_flight.all.clone();
        SqlLock::over(table, notifications, outstanding, self.settings)
    }
}
