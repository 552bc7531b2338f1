use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Pool, SqlSafeStr, Transaction};
use tokio::runtime::Handle;

use super::{Database, Dialect};

/// A transaction that is being opened.
///
/// If it is dropped on the way, it goes on in the background and is rolled back. The driver
/// would give the connection back with the transaction open: its locks would stay, and the
/// next writes on it would not be committed.
pub struct OpeningTransaction<DB: Database>(Option<Opening<DB>>);

type Opening<DB> = BoxFuture<'static, sqlx::Result<Transaction<'static, DB>>>;

impl<DB: Database> OpeningTransaction<DB> {
    /// Runs a statement that begins a transaction. Where it fails it must leave none open.
    pub fn new(conn: PoolConnection<DB>, statement: String) -> OpeningTransaction<DB> {
        // `Pool::begin_with` calls this undocumented function. It would wait for the connection as
        // well, and nothing should wait for that in the background.
        let begin = Some(AssertSqlSafe(statement).into_sql_str());
        OpeningTransaction(Some(Transaction::begin(conn, begin)))
    }
}

impl<DB: Database> Future for OpeningTransaction<DB> {
    type Output = sqlx::Result<Transaction<'static, DB>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(opening) = &mut self.0 else { return Poll::Pending };
        let begun = opening.poll_unpin(context);
        if begun.is_ready() {
            self.0 = None;
        }
        begun
    }
}

impl<DB: Database> Drop for OpeningTransaction<DB> {
    fn drop(&mut self) {
        let Some(opening) = self.0.take() else { return };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                if let Ok(tx) = opening.await {
                    let _ = tx.rollback().await;
                }
            });
        }
    }
}

/// Takes a connection for procedures and settings. On MySQL it is closed afterwards: an interrupted procedure leaves
/// its transaction open, and settings and table locks belong to the session.
pub async fn procedure_connection<DB: Database>(
    pool: &Pool<DB>,
) -> sqlx::Result<PoolConnection<DB>> {
    let mut conn = pool.acquire().await?;
    if DB::DIALECT == Dialect::MySql {
        conn.close_on_drop();
    }
    Ok(conn)
}

/// Migrates where a transaction can create tables: all or nothing. `begin` or `lock` keep
/// others out until it ends.
#[allow(dead_code, reason = "MySQL has no such transactions")]
pub async fn in_one_transaction<DB: Database>(
    pool: &Pool<DB>,
    begin: &'static str,
    lock: Option<&'static str>,
    migrator: Migrator,
) -> Result<bool, MigrateError> {
    // Dropped on the way, the driver would give the connection back with the transaction open.
    let mut tx = OpeningTransaction::new(pool.acquire().await?, begin.into()).await?;
    if let Some(lock) = lock {
        DB::execute(&mut tx, lock.into()).await?;
    }
    migrator.run_direct(None, &mut *tx, false).await?;
    tx.commit().await?;
    Ok(true)
}
