use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Connection, Pool, Transaction};

use super::backend::Backend;
use super::{AdmitError, Database, begin};
use crate::{Resource, Token};

/// Runs `work` in a transaction that is admitted, and commits it: begin and admission go
/// to the server in one round trip. Rolls back if `work` fails.
///
/// [`begin`] takes two: after a refusal the transaction must be ended before the pool gets
/// its connection back, which needs a hand on that connection.
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # async fn write(
/// #     pool: sqlx::PgPool, resource: fencing::Resource, token: fencing::Token,
/// # ) -> Result<(), fencing::sql::AdmitError> {
/// fencing::sql::transaction(&pool, &resource, token, |tx| {
///     Box::pin(async move {
///         sqlx::query("UPDATE files SET body = 'new'").execute(&mut **tx).await?;
///         Ok::<_, fencing::sql::AdmitError>(())
///     })
/// })
/// .await
/// # }
/// ```
///
/// **Fencing.** As for [`admit`](super::admit()).
///
/// # Errors
/// As for [`admit`](super::admit()); what `work` gave; what the commit said. A commit
/// whose answer was lost may have been made.
///
/// # Cancel safety
/// Dropped, the transaction is rolled back, unless its commit was on the way.
pub async fn transaction<DB, T, E, F>(
    pool: &Pool<DB>,
    resource: &Resource,
    token: Token,
    work: F,
) -> Result<T, E>
where
    DB: Database,
    E: From<AdmitError>,
    F: for<'t> FnOnce(&'t mut Transaction<'_, DB>) -> BoxFuture<'t, Result<T, E>>,
{
    let Some(statement) = DB::begin_admitted(resource, token) else {
        return finish(begin(pool, resource, token).await?, work).await;
    };
    let conn = pool.acquire().await.map_err(AdmitError::from)?;
    let mut unsettled = Unsettled { conn, settled: false };
    let error = {
        let begun = unsettled.conn.begin_with(AssertSqlSafe(statement)).await;
        match begun {
            Ok(tx) => {
                unsettled.settled = true;
                return finish(tx, work).await;
            }
            Err(error) => error,
        }
    };
    // The driver believes that there is no transaction, and would leave it open.
    unsettled.settled = DB::execute(&mut unsettled.conn, "ROLLBACK".into()).await.is_ok();
    Err(AdmitError::of(resource, token, error).into())
}

/// A connection that is closed, not given back, unless it is known how it stands.
struct Unsettled<DB: Backend> {
    conn: PoolConnection<DB>,
    settled: bool,
}

impl<DB: Backend> Drop for Unsettled<DB> {
    fn drop(&mut self) {
        if !self.settled {
            self.conn.close_on_drop();
        }
    }
}

async fn finish<DB, T, E, F>(mut tx: Transaction<'_, DB>, work: F) -> Result<T, E>
where
    DB: Database,
    E: From<AdmitError>,
    F: for<'t> FnOnce(&'t mut Transaction<'_, DB>) -> BoxFuture<'t, Result<T, E>>,
{
    match work(&mut tx).await {
        Ok(value) => {
            tx.commit().await.map_err(AdmitError::from)?;
            Ok(value)
        }
        Err(error) => {
            // Dropped, it would keep its locks until the connection's next use.
            let _ = tx.rollback().await;
            Err(error)
        }
    }
}
