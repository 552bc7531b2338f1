use fencing_protocol::{Resource, Token};
use sqlx::Transaction;

use super::AdmitError;
use super::admit::compare_and_raise;
use crate::database::Database;

/// Checks whether [`admit`](super::admit()) would admit `token` to `resource`, and refuses nothing. Use it to
/// bring fencing to existing writers. `None`: a writer without a token.
///
/// If the fence would have refused, it returns why, logs it at INFO, and counts it in
/// the metric `fencing_admissions_total` with `layer="sql"` and the outcome `shadow_stale`, `shadow_unpresented`,
/// `shadow_waits` (it would have waited for another transaction, and perhaps have been refused then) or
/// `shadow_failed`. It raises the mark as `admit` does, if it need not wait for that.
///
/// **Fencing.** None. It waits for other transactions for 10 ms at most on PostgreSQL, and not at all on MariaDB; on
/// MySQL and SQLite as the transaction's own writes do.
///
/// # Errors
/// Those that have ended the transaction, such as a deadlock, or a lost connection: roll it back.
///
/// # Cancel safety
/// If it is dropped, it may or may not have been done: roll the transaction back.
pub async fn admit_in_shadow<DB: Database>(
    tx: &mut Transaction<'_, DB>,
    resource: &Resource,
    token: Option<Token>,
) -> Result<Option<String>, AdmitError> {
    let refusal = match token {
        Some(token) => refusal::<DB>(tx, resource, token).await?,
        None => None,
    };
    let label = match (token, &refusal) {
        (None, _) => "shadow_unpresented",
        (_, None) => "admitted",
        (_, Some(AdmitError::Stale(_))) => "shadow_stale",
        (_, Some(AdmitError::Retryable(_))) => "shadow_waits",
        _ => "shadow_failed",
    };
    let message = match token {
        Some(_) => refusal.map(|error| error.to_string()),
        None => Some(format!("no token presented, resource {resource}")),
    };
    if let Some(message) = &message {
        tracing::info!(message, "transaction would not be admitted");
    }
    metrics::counter!("fencing_admissions_total", "layer" => "sql", "outcome" => label).increment(1);
    Ok(message)
}

/// Admits, or returns why not. A failed statement ends what follows the savepoint, and not the transaction.
async fn refusal<DB: Database>(
    conn: &mut DB::Connection,
    resource: &Resource,
    token: Token,
) -> Result<Option<AdmitError>, AdmitError> {
    const RELEASE: &str = "RELEASE SAVEPOINT fencing_shadow";
    DB::execute(conn, "SAVEPOINT fencing_shadow".into()).await?;
    let admitted = compare_and_raise::<DB>(conn, DB::ADMIT_IN_SHADOW, resource, token).await;
    let Err(error) = admitted else {
        DB::execute(conn, RELEASE.into()).await?;
        return Ok(None);
    };
    let undo = format!("ROLLBACK TO SAVEPOINT fencing_shadow; {RELEASE}");
    match DB::execute(conn, undo).await {
        Ok(()) => Ok(Some(error)),
        Err(_) => Err(error),
    }
}
