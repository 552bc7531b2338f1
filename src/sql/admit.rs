use sqlx::{Pool, Transaction};

use super::begun::Begun;
use super::{AdmitError, Database};
use crate::{Resource, Token};

/// Admits `token` to `resource` for the rest of this transaction, or refuses it: compares
/// it with the mark and raises the mark to it, at once. Equal passes, lower is refused.
///
/// Call it before the transaction writes, best as its first statement: on SQLite a
/// deferred transaction that has read may be refused its first write, and under
/// REPEATABLE READ or SERIALIZABLE one that has an old snapshot is.
///
/// **Fencing.** From `Ok` until the transaction ends, no newer token is admitted to this
/// resource, neither here nor in another process: it waits, or fails. What this
/// transaction writes therefore never lands after the first contact of a newer token.
/// If the transaction rolls back, so does the mark, as nothing was written; likewise for
/// a savepoint, so write nothing after rolling back to one that was set before `admit`.
/// It says nothing of writes outside this transaction, and nothing of writers that do
/// not call it. Equal tokens run side by side on PostgreSQL and MySQL, except for those
/// that meet the first contact of their token, and a stream of them does not starve a
/// newer one; SQLite has one writer at a time.
///
/// On MySQL a deadlock ends the transaction, and so does a statement that creates or
/// alters a table: what the connection writes after that is outside of it. Stop at the
/// first error.
///
/// # Errors
/// [`AdmitError::Stale`] if the mark is higher. [`AdmitError::Retryable`] if another
/// transaction was in the way, which says nothing of the token: run the transaction
/// again. Any other error: nobody may write. How long a lock is waited for is set in the
/// database (`lock_timeout`, `innodb_lock_wait_timeout`, `busy_timeout`).
///
/// # Cancel safety
/// Dropped, the token may or may not have been admitted: roll the transaction back.
#[tracing::instrument(name = "fencing.admit", level = "debug", skip_all, fields(%resource, %token))]
pub async fn admit<DB: Database>(
    tx: &mut Transaction<'_, DB>,
    resource: &Resource,
    token: Token,
) -> Result<(), AdmitError> {
    DB::admit(tx, resource, token).await
}

/// Opens a transaction and admits `token` to `resource` in it, in one round trip.
///
/// On SQLite the transaction begins IMMEDIATE, so that it waits for its turn at the start
/// and is never refused its first write. Isolation is the database's default.
///
/// **Fencing.** As for [`admit`].
///
/// # Errors
/// As for [`admit`]; the transaction has been rolled back, as far as the database was
/// there to do it.
///
/// # Cancel safety
/// Dropped, the transaction is rolled back; its connection is given back when the database
/// has answered what was under way.
pub async fn begin<DB: Database>(
    pool: &Pool<DB>,
    resource: &Resource,
    token: Token,
) -> Result<Transaction<'static, DB>, AdmitError> {
    if let Some(statement) = DB::begin_admitted(resource, token) {
        let begun = Begun::new(pool.acquire().await?, statement);
        return begun.await.map_err(|error| AdmitError::of(resource, token, error));
    }
    let mut tx = pool.begin_with(DB::BEGIN).await?;
    match admit(&mut tx, resource, token).await {
        Ok(()) => Ok(tx),
        Err(error) => {
            // Dropped, it would keep its locks until the connection's next use.
            let _ = tx.rollback().await;
            Err(error)
        }
    }
}

/// The mark of `resource`: the highest token that a committed transaction presented, if
/// there was one. For operators and tests.
///
/// **Fencing.** None: it may have been raised by the time it is read. Never use it as a
/// token; a token comes only from a lease.
///
/// # Errors
/// As for [`admit`], but never [`AdmitError::Stale`].
///
/// # Cancel safety
/// It changes nothing.
pub async fn highest<DB: Database>(
    pool: &Pool<DB>,
    resource: &Resource,
) -> Result<Option<Token>, AdmitError> {
    let mut conn = pool.acquire().await?;
    DB::mark(&mut conn, resource).await
}

/// Presents `token` to the triggers of protected tables (`fencing protect`), which admit it
/// to the resource of each row that the transaction writes from here on.
///
/// On PostgreSQL until the transaction ends. On MySQL until the session ends, where a
/// variable knows no transactions: present in each transaction that writes. On SQLite it
/// does nothing: there the write presents the token in the column `fencing_token`.
///
/// **Fencing.** One token for whatever is written next: in a transaction that writes under
/// several leases, present before each.
///
/// # Errors
/// As for [`admit`], but never [`AdmitError::Stale`]: that the write says.
///
/// # Cancel safety
/// Dropped, it may or may not have been presented: roll the transaction back.
pub async fn present<DB: Database>(
    tx: &mut Transaction<'_, DB>,
    token: Token,
) -> Result<(), AdmitError> {
    Ok(DB::present(tx, token).await?)
}
