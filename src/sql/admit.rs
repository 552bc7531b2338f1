use sqlx::{Pool, Transaction};

use super::error::is_to_raise_first;
use super::opening::OpeningTransaction;
use super::{AdmitError, Database};
use crate::resource::Resource;
use crate::token::Token;

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
/// Under REPEATABLE READ a transaction reads what was there when it first looked, which may
/// be before it waited here: at the first contact of a token it may miss what an older one
/// wrote meanwhile, and on MySQL write over it. [`begin`] sees to that; or use READ
/// COMMITTED, or read what you are going to change with `FOR UPDATE`.
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
/// **Fencing.** As for [`admit`]. What the transaction reads is not older than its
/// admission, on any level of isolation: everything that older tokens wrote is there. On
/// PostgreSQL above READ COMMITTED this takes two round trips more at a token's first
/// contact.
///
/// # Errors
/// As for [`admit`]; the transaction has been rolled back, as far as the database was
/// there to do it.
///
/// # Cancel safety
/// Dropped, the transaction is rolled back; its connection is given back when the database
/// has answered what was under way, which a wait for a lock may put off: set a
/// `lock_timeout` (`innodb_lock_wait_timeout`) where callers give up sooner than holders.
#[tracing::instrument(name = "fencing.admit", level = "debug", skip_all, fields(%resource, %token))]
pub async fn begin<DB: Database>(
    pool: &Pool<DB>,
    resource: &Resource,
    token: Token,
) -> Result<Transaction<'static, DB>, AdmitError> {
    let Some(statement) = DB::begin_admitted(resource, token) else {
        return step_by_step(pool, DB::BEGIN, resource, token).await;
    };
    let mut begun = OpeningTransaction::new(pool.acquire().await?, statement.clone()).await;
    if begun.as_ref().is_err_and(is_to_raise_first) {
        step_by_step(pool, DB::BEGIN_TO_RAISE, resource, token).await?.commit().await?;
        begun = OpeningTransaction::new(pool.acquire().await?, statement).await;
    }
    begun.map_err(|error| AdmitError::of(resource, token, error))
}

async fn step_by_step<DB: Database>(
    pool: &Pool<DB>,
    begin: &'static str,
    resource: &Resource,
    token: Token,
) -> Result<Transaction<'static, DB>, AdmitError> {
    let mut tx = pool.begin_with(begin).await?;
    match DB::admit(&mut tx, resource, token).await {
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
