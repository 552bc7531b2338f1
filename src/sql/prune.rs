use std::time::Duration;

use fencing_protocol::Token;
use sqlx::Pool;

use super::AdmitError;
use super::retry::{Retry, retry};
use crate::database::{Database, NO_FLOOR, TextRow, fill, procedure_connection};

/// Marks deleted in one transaction. Clients that need one of them wait for it.
const BATCH: u32 = 1000;

/// The longest age: a hundred years.
const MAX_AGE: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// Removes marks that were not raised for a long time. The floor replaces them. It is one token for
/// all resources: if a resource has no mark, tokens at or below the floor are refused.
///
/// The floor is the highest pruned token. It never falls. [`SqlLock`](crate::lock::sql::SqlLock) grants
/// tokens above the floor. For other services, bound it ([`up_to`](Prune::up_to)) below their next grants.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use fencing::sql::{self, Prune};
///
/// let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
/// sql::migrate(&pool).await?;
///
/// let old = Prune::older_than(Duration::from_secs(90 * 24 * 60 * 60));
/// let plan = old.look(&pool).await?; // changes nothing
/// println!("{} marks, the floor would be {:?}", plan.marks, plan.floor);
/// old.run(&pool).await?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
///
/// **Fencing.** Tokens that a pruned mark refused stay refused, at any isolation level, with any open transactions. If
/// a resource has no mark, a token at or below the floor is refused even if it is not stale: the token of a holder that
/// has not written for that long, or of another resource. So choose an age that is longer than any holder keeps one
/// token. Marks of leases in the same database that have not ended stay, and such a lease gets a mark if it has none
/// yet. A lease that is granted at the moment when the floor rises may be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Prune {
    older_than: Duration,
    up_to: Token,
}

/// The result of a prune, or its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The number of marks.
    pub marks: u64,
    /// The highest of the marks: the bytes of its name, and its token. The floor rises to this token, if it is lower.
    pub highest: Option<(Vec<u8>, Token)>,
    /// The floor before, if there was one.
    pub from: Option<Token>,
    /// The floor after. A resource without a mark refuses this token and all below.
    pub floor: Option<Token>,
}

impl Prune {
    /// Prunes marks that were not raised for this long. Rounds up to a second; takes at most a hundred years.
    pub fn older_than(older_than: Duration) -> Prune {
        Prune { older_than, up_to: Token::MAX }
    }

    /// Keeps marks above this token, so that the floor does not rise above it. Otherwise a mark that a forged token has
    /// raised would raise the floor with it, and lock out every new resource.
    pub fn up_to(self, up_to: Token) -> Prune {
        Prune { up_to, ..self }
    }

    /// Returns what [`run`](Prune::run) would do, and changes nothing.
    ///
    /// # Errors
    /// As for [`highest`](super::highest()).
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn look<DB: Database>(&self, pool: &Pool<DB>) -> Result<Pruned, AdmitError> {
        let mut conn = procedure_connection(pool).await?;
        // Some tokens are left above the floor.
        let (seconds, highest) = (self.seconds(), self.up_to.get().min(Token::MAX.get() - 2));
        let look = fill(DB::PRUNABLE, &[("{seconds}", &seconds), ("{highest}", &highest)]);
        read_plan(&DB::texts(&mut conn, look).await?)
    }

    /// Raises the floor, then removes a thousand marks at a time. Marks locked just then stay until the next prune.
    ///
    /// On MySQL the floor can rise only while no transaction is open that has created a mark. It tries that ten times
    /// within two seconds without a wait, then waits three times, for a second each. Meanwhile others that create a
    /// mark wait, too. On PostgreSQL it waits only for a transaction that has created the mark of a current lease,
    /// three times for a second at most, and no client waits for it. On SQLite no wait outlasts a statement. On MySQL
    /// each step is its own transaction, at READ COMMITTED: with `binlog_format = STATEMENT` the server refuses it.
    ///
    /// # Errors
    /// As for [`admit`](super::admit()), but never [`AdmitError::Stale`]. [`AdmitError::Retryable`] after
    /// conflicts. Completed steps stay, and are consistent.
    ///
    /// # Cancel safety
    /// If it is dropped, the floor may have risen, and some of the marks may be gone: run it again.
    pub async fn run<DB: Database>(&self, pool: &Pool<DB>) -> Result<Pruned, AdmitError> {
        let planned = self.look(pool).await?;
        let Some(floor) = planned.floor.filter(|_| planned.marks > 0) else { return Ok(planned) };
        raise_floor(pool, floor).await?;
        let (mut marks, mut after) = (0, Vec::new());
        loop {
            let mut conn = procedure_connection(pool).await?;
            let name = DB::literal(&after);
            let prune = fill(DB::PRUNE, &[("{seconds}", &self.seconds()), ("{after}", &name), ("{limit}", &BATCH)]);
            let rows = DB::texts(&mut conn, prune).await?;
            marks += rows.iter().filter_map(|row| row.number::<u64>(0)).sum::<u64>();
            match rows.iter().filter_map(|row| row.bytes(1)).max() {
                Some(last) => after = last,
                None => return Ok(Pruned { marks, ..planned }),
            }
        }
    }

    fn seconds(&self) -> u64 {
        let age = self.older_than.min(MAX_AGE);
        age.as_secs() + u64::from(age.subsec_nanos() > 0)
    }
}

/// Raises the floor to `to`, unless it is higher already: if a resource has no mark, `to` and all smaller tokens are
/// refused from then on, for good, and each new lease gets a larger one. For operators, after a database has lost
/// leases (a failover to a lagging replica, a restore): a lost token is not granted again.
///
/// A lease that has not ended, and has no mark yet, gets it first. It waits as [`Prune::run`] does.
///
/// # Errors
/// As for [`Prune::run`]. [`AdmitError::Database`] if `to` is one of the last two tokens: none would be left.
///
/// # Cancel safety
/// If it is dropped, the floor may have risen.
pub async fn raise_floor<DB: Database>(pool: &Pool<DB>, to: Token) -> Result<(), AdmitError> {
    let raise = async |waits: bool| {
        let raise = fill(DB::RAISE_FLOOR, &[("{to}", &to), ("{waits}", &waits)]);
        Ok(DB::execute(&mut *procedure_connection(pool).await?, raise).await?)
    };
    if DB::FLOOR_WAIT_BLOCKS_OTHERS {
        // It tries without a wait first.
        match retry(Retry::new(), || raise(false)).await {
            Err(AdmitError::Retryable(_)) => {}
            result => return result,
        }
    }
    retry(Retry::new().tries(3), || raise(true)).await
}

fn read_plan(rows: &[TextRow]) -> Result<Pruned, AdmitError> {
    let no_floor = || AdmitError::NotMigrated(sqlx::Error::Protocol(NO_FLOOR.into()));
    let row = rows.first().ok_or_else(no_floor)?;
    let token = |column| row.number::<i64>(column).and_then(|number| Token::try_from(number).ok());
    // It is 0 where none was set, and NULL only where the row is lost.
    row.number::<i64>(1).ok_or_else(no_floor)?;
    let (highest, from) = (row.bytes(2).zip(token(3)), token(1));
    let floor = from.max(highest.as_ref().map(|(_, token)| *token));
    Ok(Pruned { marks: row.number(0).unwrap_or(0), highest, from, floor })
}
