use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, SqlSafeStr, Transaction};
use tokio::runtime::Handle;

use crate::database::{Database, Undo};

/// A transaction that is being opened.
///
/// If it is dropped on the way, it goes on in the background and is rolled back. The driver
/// would give the connection back with the transaction open: its locks would stay, and the
/// next writes on it would not be committed.
pub(super) struct OpeningTransaction<DB: Database>(Option<Opening<DB>>);

type Opening<DB> = BoxFuture<'static, sqlx::Result<Transaction<'static, DB>>>;

/// `Pool::begin_with` calls this undocumented function. It would wait for the connection as
/// well, and nothing should wait for that in the background.
fn begin<DB: Database>(conn: PoolConnection<DB>, statement: String) -> Opening<DB> {
    Transaction::begin(conn, Some(AssertSqlSafe(statement).into_sql_str()))
}

impl<DB: Database> OpeningTransaction<DB> {
    /// Runs a statement that begins a transaction. Where it fails it must leave none open.
    pub(super) fn new(conn: PoolConnection<DB>, statement: String) -> OpeningTransaction<DB> {
        OpeningTransaction(Some(begin(conn, statement)))
    }

    /// Runs a text that begins a transaction and admits in it, and ends what it may have left
    /// open where it fails.
    pub(super) fn admitted(mut conn: PoolConnection<DB>, text: String) -> OpeningTransaction<DB> {
        let Some(Undo { rollback, nothing }) = DB::UNDO else {
            return OpeningTransaction::new(conn, text);
        };
        OpeningTransaction(Some(Box::pin(async move {
            if let Err(error) = DB::execute(&mut conn, text).await {
                if DB::execute(&mut conn, rollback.into()).await.is_err() {
                    conn.close_on_drop();
                }
                return Err(error);
            }
            // The transaction is open: the driver only has to know of it.
            begin(conn, nothing.into()).await
        })))
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
