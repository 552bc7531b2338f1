use std::error::Error;
use std::iter::successors;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{AdmitError, MigrateError};
use crate::backoff::Backoff;
use crate::database::{Meaning, is_conflict, meaning};

/// How often a transaction is run again after a conflict with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Retry {
    tries: u32,
    within: Duration,
}

/// The longest pause before the second try, and before later ones.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_secs(1);

impl Retry {
    /// Allows ten tries, with a random pause of up to 10 ms before the second, which doubles with each, up to a second.
    pub const fn new() -> Retry {
        Retry { tries: 10, within: Duration::MAX }
    }

    /// Sets how often the transaction is run in all; at least once.
    pub const fn tries(self, tries: u32) -> Retry {
        Retry { tries, ..self }
    }

    /// Begins no try after this time.
    pub(super) const fn within(self, within: Duration) -> Retry {
        Retry { within, ..self }
    }
}

impl Default for Retry {
    fn default() -> Retry {
        Retry::new()
    }
}

/// Runs a transaction until it is committed, is refused, or has used up its tries.
///
/// The closure begins the transaction, and commits it: each try calls it again. It tries again only if [`is_retryable`]
/// allows it: if the admission, a statement or the commit met another transaction. A stale token ends it.
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # async fn write(
/// #     pool: sqlx::PgPool, resource: fencing::Resource, token: fencing::Token,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use fencing::sql;
///
/// let task = tokio::spawn(async move {
///     sql::retry(sql::Retry::new(), || async {
///         let mut tx = sql::begin(&pool, &resource, token).await?;
///         sqlx::query("UPDATE files SET body = 'new'").execute(&mut *tx).await?;
///         tx.commit().await?;
///         Ok::<_, sql::AdmitError>(())
///     })
///     .await
/// });
/// task.await??;
/// # Ok(())
/// # }
/// ```
///
/// **Fencing.** Each try is admitted again, so that one that waited is refused if a newer
/// token came meanwhile. A commit whose answer was lost is not run again.
///
/// # Errors
/// The error of the last try.
///
/// # Cancel safety
/// Those of the closure's future.
pub async fn retry<T, E, F, Fut>(policy: Retry, mut transaction: F) -> Result<T, E>
where
    E: Error + 'static,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let (begun, mut backoff, mut tries) = (Instant::now(), Backoff::new(FIRST_PAUSE, MAX_PAUSE), 1);
    loop {
        let more = || tries < policy.tries && begun.elapsed() < policy.within;
        match transaction().await {
            Err(error) if is_retryable(&error) && more() => sleep(backoff.pause()).await,
            result => return result,
        }
        tries += 1;
    }
}

/// Returns whether the whole transaction may succeed when it is run again: the error, or one that it comes
/// from, reports a conflict with another transaction (a serialization failure, a deadlock, a lock that did
/// not become free in time). It reads [`AdmitError`], [`MigrateError`] and the driver's errors of every
/// database, those of a commit included. Stale is never retryable.
pub fn is_retryable(error: &(dyn Error + 'static)) -> bool {
    let known = successors(Some(error), |error| (**error).source()).find_map(|error| {
        let admit = error.downcast_ref().map(|error| matches!(error, AdmitError::Retryable(_)));
        let migrate = || error.downcast_ref().map(|error| matches!(error, MigrateError::Locked(_)));
        admit.or_else(migrate).or_else(|| error.downcast_ref().map(is_conflict))
    });
    known.unwrap_or(false)
}

/// Returns whether the database or the connection failed, rather than the statement or the user's rights: the
/// connection broke or could not be made, the server starts or ends, takes no more connections or no writes, or has no
/// room, the statement took too long, or a pooler gave the session of another client. It reads what [`is_retryable`]
/// reads. A commit may have been carried out.
pub fn is_unavailable(error: &(dyn Error + 'static)) -> bool {
    let mut causes = successors(Some(error), |error| (**error).source());
    causes.find_map(|error| error.downcast_ref()).is_some_and(|error| match error {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => true,
        // Of prepared statements: PostgreSQL has them by session.
        sqlx::Error::Database(said) if matches!(said.code().as_deref(), Some("42P05" | "26000")) => true,
        error => {
            matches!(meaning(error), Some(Meaning::Closing | Meaning::Starting | Meaning::Unreached | Meaning::NotNow))
        }
    })
}
