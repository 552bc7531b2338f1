use std::sync::Arc;
use std::time::Duration;

use sqlx::Pool;

use super::table::LeaseTable;
use super::{BuildError, SqlLock, listener};
use crate::database::Database;
use crate::holder::HolderName;
use crate::lock::settings::{Settings, settings_setters};
use crate::lock::wait::release_notifications::{ReleaseNotifications, Source};
use crate::lock::wait::subscriptions::Notifies;
use crate::time::{Clock, SystemClock};

/// The budget where none is set: this, or half of a short TTL.
const BUDGET: Duration = Duration::from_secs(2);

/// Builds a [`SqlLock`].
#[derive(Clone)]
#[must_use]
pub struct SqlLockBuilder<DB: Database> {
    pool: Pool<DB>,
    clock: Arc<dyn Clock>,
    pub(in crate::lock) settings: Settings,
}

impl<DB: Database> SqlLockBuilder<DB> {
    pub(super) fn new(pool: Pool<DB>) -> SqlLockBuilder<DB> {
        SqlLockBuilder { pool, clock: Arc::new(SystemClock), settings: Settings::new("budget", (BUDGET, 2)) }
    }

    /// Sets the clock that leases are timed by in this process. Default: [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock) -> SqlLockBuilder<DB> {
        self.clock = Arc::new(clock);
        self
    }

    settings_setters!();

    /// Sets how long the database may take to answer, a connection of the pool included.
    /// Default: 2 s, or half of the TTL if that is less.
    pub fn budget(mut self, budget: Duration) -> SqlLockBuilder<DB> {
        self.settings.budget = Some(budget);
        self
    }

    /// Builds the lock service. It asks the database with the first acquisition.
    ///
    /// # Errors
    /// [`BuildError`] says which value does not fit, and why.
    pub fn build(self) -> Result<SqlLock<DB>, BuildError> {
        let settings = self.settings.checked()?;
        settings.holder_name()?;
        Ok(SqlLockBuilder { settings, ..self }.serve())
    }

    pub(super) fn serve(self) -> SqlLock<DB> {
        let holder = self.settings.holder_name().unwrap_or_else(|error| {
            tracing::warn!(%error, "locks are held under the name of this process");
            HolderName::of_process()
        });
        let (pool, clock) = (self.pool.clone(), Arc::clone(&self.clock));
        let table = Arc::new(LeaseTable::new(self.pool, holder, self.clock));
        let source = || Source::new(&table.name, move || listener::open::<DB>(pool.clone()));
        let sources = DB::NOTIFY.map(|_| source()).into_iter().collect();
        let notifications = Arc::new(ReleaseNotifications::new(1, Notifies::Everyone, sources));
        let outstanding = table.in_flight.all.clone();
        SqlLock::over(table, clock, notifications, outstanding, self.settings)
    }
}
