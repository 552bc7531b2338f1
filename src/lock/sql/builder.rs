use std::sync::Arc;
use std::time::Duration;

use sqlx::Pool;

use super::backend::Database;
use super::table::LeaseTable;
use super::{BuildError, SqlLock};
use crate::lock::settings::Settings;
use crate::time::{Clock, SystemClock};

/// The budget where none is set: this, or half of a short TTL.
const BUDGET: Duration = Duration::from_secs(2);

/// The numbers of a lock service in a database.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    settings: Settings,
    /// The budget that was asked for.
    budget: Option<Duration>,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers { settings: Settings::with_budget(BUDGET), budget: None }
    }
}

impl Numbers {
    pub(super) fn ttl(mut self, ttl: Duration) -> Numbers {
        self.settings.ttl = ttl;
        self
    }

    pub(super) fn wait(mut self, limit: Duration) -> Numbers {
        self.settings.wait = limit;
        self
    }

    pub(super) fn checked(self) -> Result<Numbers, BuildError> {
        self.settings().check("budget")?;
        Ok(self)
    }

    pub(super) fn settings(&self) -> Settings {
        let budget = self.budget.unwrap_or(BUDGET.min(self.settings.ttl / 2));
        Settings { budget, ..self.settings }
    }
}

/// What a [`SqlLock`] is built from.
#[derive(Clone)]
#[must_use]
pub struct SqlLockBuilder<DB: Database> {
    pool: Pool<DB>,
    clock: Arc<dyn Clock>,
    numbers: Numbers,
}

impl<DB: Database> SqlLockBuilder<DB> {
    pub(super) fn new(pool: Pool<DB>) -> SqlLockBuilder<DB> {
        SqlLockBuilder { pool, clock: Arc::new(SystemClock), numbers: Numbers::default() }
    }

    /// The clock that leases are timed by in this process. Default: [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock) -> SqlLockBuilder<DB> {
        self.clock = Arc::new(clock);
        self
    }

    /// How long a lease lasts unless it is renewed. Default: 10 s.
    pub fn ttl(mut self, ttl: Duration) -> SqlLockBuilder<DB> {
        self.numbers.settings.ttl = ttl;
        self
    }

    /// What this machine's clock and the database's may differ by over one TTL; taken off
    /// each lease. Default: 1 % + 2 ms.
    pub fn drift(mut self, drift: Duration) -> SqlLockBuilder<DB> {
        self.numbers.settings.drift = Some(drift);
        self
    }

    /// The pause between two attempts, give or take a random half. Default: 100 ms.
    pub fn retry_delay(mut self, delay: Duration) -> SqlLockBuilder<DB> {
        self.numbers.settings.retry_delay = delay;
        self
    }

    /// How long [`SqlLock::acquire`] waits. Default: 30 s.
    pub fn wait(mut self, limit: Duration) -> SqlLockBuilder<DB> {
        self.numbers.settings.wait = limit;
        self
    }

    /// How long the database may take to answer, a connection of the pool included.
    /// Default: 2 s, or half of the TTL if that is less.
    pub fn budget(mut self, budget: Duration) -> SqlLockBuilder<DB> {
        self.numbers.budget = Some(budget);
        self
    }

    /// How long a lock stays closed after a holder vanished without releasing it
    /// (Chubby's lock-delay). Default: zero.
    pub fn lock_delay(mut self, delay: Duration) -> SqlLockBuilder<DB> {
        self.numbers.settings.lock_delay = delay;
        self
    }

    /// The longest that one lease is held, renewals included. Default: no bound.
    pub fn max_hold(mut self, most: Duration) -> SqlLockBuilder<DB> {
        self.numbers.settings.max_hold = Some(most);
        self
    }

    /// Whether a watchdog renews the lease each third of its TTL. Default: it does.
    pub fn renew(mut self, renew: bool) -> SqlLockBuilder<DB> {
        self.numbers.settings.renew = renew;
        self
    }

    /// Builds the lock service. It asks the database with the first acquisition.
    ///
    /// # Errors
    /// [`BuildError`] says which value can't be, and why.
    pub fn build(self) -> Result<SqlLock<DB>, BuildError> {
        let numbers = self.numbers.checked()?;
        Ok(SqlLock::with_numbers(LeaseTable::new(self.pool, self.clock), numbers))
    }
}
