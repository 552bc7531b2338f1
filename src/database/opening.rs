use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Pool, SqlSafeStr, Transaction};

use super::Dialect;
use crate::background::{Unfinished, to_the_end};

/// Opens a transaction by this statement. Where that fails it must leave none open.
///
/// If this is dropped meanwhile, it continues in the background and is rolled back. The driver would give the
/// connection back with the transaction open: its locks would stay, and the next writes on it would not be committed.
pub async fn open_transaction<DB: Dialect>(
    conn: PoolConnection<DB>,
    statement: String,
) -> sqlx::Result<Transaction<'static, DB>> {
    // `Pool::begin_with` calls this undocumented function. It would wait for the connection as
    // well, and nothing should wait for that in the background.
    let opening = Transaction::begin(conn, Some(AssertSqlSafe(statement).into_sql_str()));
    let undo = |opening: Unfinished<sqlx::Result<Transaction<'static, DB>>>| async {
        if let Ok(Ok(tx)) = opening.await {
            let _ = tx.rollback().await;
        }
    };
    to_the_end(opening, undo).await
}

/// Takes a connection for procedures and settings. It is closed afterwards where they would stay in its session.
pub async fn procedure_connection<DB: Dialect>(pool: &Pool<DB>) -> sqlx::Result<PoolConnection<DB>> {
    let mut conn = pool.acquire().await?;
    if DB::KEEPS_SESSION_STATE {
        conn.close_on_drop();
    }
    Ok(conn)
}
