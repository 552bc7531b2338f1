use futures_util::future::BoxFuture;
use sqlx::{Pool, Transaction};

use super::{AdmitError, Database, begin};
use crate::resource::Resource;
use crate::token::Token;

/// Runs `work` in a transaction that is admitted ([`begin`]), and commits it. Rolls back if
/// `work` fails.
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
    let mut tx = begin(pool, resource, token).await?;
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
