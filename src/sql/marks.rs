use std::time::Duration;

use fencing_protocol::{Resource, Token};
use futures_util::future::BoxFuture;
use sqlx::Pool;

use super::AdmitError;
use super::admit::{compare_and_raise, highest, newest_mark};
use super::list::{Mark, marks};
use crate::database::Database;
use crate::database::opening::OpeningTransaction;
use crate::fence::{Marks, MarksError, Stale};
use crate::random::jitter;

/// How often a raise is tried when other transactions are in the way.
const TRIES: u32 = 5;

/// The longest pause before the second try; it doubles from try to try.
const PAUSE: Duration = Duration::from_millis(10);

/// High-water marks in a database, for a [fence](crate::fence) whose writes go elsewhere.
///
/// Cloning is cheap and shares the pool. Run [`migrate`](super::migrate()) first.
///
/// **Fencing.** One statement compares and raises the mark, and it is committed before the
/// token passes. All processes that use this database share its marks. The write that
/// follows is outside of that: only the gate of the fence makes a newer token wait for it,
/// within one process. Where the data is in this database, use [`admit`](super::admit())
/// instead. A proxy may send reads to replicas: no token passes because of what a replica says. A
/// commit must be on disk before it is acknowledged, as it is by default: with `synchronous_commit
/// = off` (PostgreSQL) or `synchronous = OFF` (SQLite) a crash forgets marks.
#[derive(Debug)]
pub struct SqlMarks<DB: Database> {
    pool: Pool<DB>,
}

impl<DB: Database> SqlMarks<DB> {
    /// Keeps marks in the database of this pool. The pool's `acquire_timeout` says how long
    /// it waits for a connection.
    #[must_use]
    pub fn new(pool: Pool<DB>) -> SqlMarks<DB> {
        SqlMarks { pool }
    }
}

impl<DB: Database> Clone for SqlMarks<DB> {
    fn clone(&self) -> SqlMarks<DB> {
        SqlMarks { pool: self.pool.clone() }
    }
}

impl<DB: Database> Marks for SqlMarks<DB> {
    fn raise<'a>(
        &'a self,
        resource: &'a Resource,
        token: Token,
    ) -> BoxFuture<'a, Result<(), MarksError>> {
        Box::pin(async move {
            let mut pause = PAUSE;
            for _ in 1..TRIES {
                match raise(&self.pool, resource, token).await {
                    Err(AdmitError::Retryable(_)) => tokio::time::sleep(jitter(pause)).await,
                    result => return result.map_err(marks_error),
                }
                pause *= 2;
            }
            raise(&self.pool, resource, token).await.map_err(marks_error)
        })
    }

    fn highest<'a>(
        &'a self,
        resource: &'a Resource,
    ) -> BoxFuture<'a, Result<Option<Token>, MarksError>> {
        Box::pin(async move { highest(&self.pool, resource).await.map_err(marks_error) })
    }

    fn list<'a>(
        &'a self,
        after: Option<&'a Resource>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(Resource, Token)>, MarksError>> {
        Box::pin(async move { valid(&self.pool, after, limit).await.map_err(marks_error) })
    }
}

/// Raises the mark, and locks nothing for longer than its own commit. It limits its wait for
/// others' locks: a statement whose future is dropped goes on in the server and keeps its
/// connection, so that one client asleep in its transaction would take all connections of
/// the pool one by one.
async fn raise<DB: Database>(
    pool: &Pool<DB>,
    resource: &Resource,
    token: Token,
) -> Result<(), AdmitError> {
    let mut conn = pool.acquire().await?;
    // Marks only grow: the newest one decides unless it is lower. A read costs no commit.
    let highest = newest_mark::<DB>(&mut conn, resource).await?;
    Stale::check(resource, token, highest)?;
    if highest == Some(token) {
        return Ok(());
    }
    let mut tx = OpeningTransaction::new(conn, DB::BEGIN_BOUNDED.into()).await?;
    match compare_and_raise::<DB>(&mut tx, resource, token).await {
        Ok(()) => Ok(tx.commit().await?),
        Err(error) => {
            let _ = tx.rollback().await;
            Err(error)
        }
    }
}

/// Reads marks, and leaves out rows that are not valid marks.
async fn valid<DB: Database>(
    pool: &Pool<DB>,
    after: Option<&Resource>,
    limit: usize,
) -> Result<Vec<(Resource, Token)>, AdmitError> {
    let mut found = Vec::new();
    let mut after = after.map_or(&b""[..], |after| after.as_str().as_bytes()).to_vec();
    while found.len() < limit {
        let wanted = u32::try_from(limit - found.len()).unwrap_or(u32::MAX);
        let rows = marks(pool, &after, wanted).await?;
        let Some(last) = rows.last() else { break };
        after.clone_from(&last.name);
        found.extend(rows.iter().filter_map(Mark::parse));
    }
    Ok(found)
}

fn marks_error(error: AdmitError) -> MarksError {
    match error {
        AdmitError::Stale(stale) => MarksError::Stale(stale),
        error @ AdmitError::NotMigrated(_) => MarksError::NotSetUp(Box::new(error)),
        error => MarksError::Unreachable(Box::new(error)),
    }
}
