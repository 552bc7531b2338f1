//! Shadow mode: refusals are counted, logged and recorded, and the write continues.

use fencing_protocol::{Resource, Token};
use sqlx::{Pool, Transaction};

use super::AdmitError;
use crate::database::{Database, Dialect, Texts};
use crate::fence::Stale;

/// A refusal in shadow mode: one row of the table `fencing_refusals`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The table in shadow mode, or `admit` for [`admit_in_shadow`].
    pub place: String,
    /// The resource, or an empty text for all others once the table has 1000 rows.
    pub resource: String,
    /// `stale`, `unpresented`, `malformed`, `truncate`, `waits` (it would have waited for another
    /// transaction, and perhaps have been refused then) or `failed` (the message says why).
    pub cause: String,
    /// The user, on PostgreSQL also the application's name; empty on SQLite.
    pub writer: String,
    /// The message of the refusal.
    pub message: String,
    /// When, in UTC.
    pub first_at: String,
}

/// Checks whether [`admit`](super::admit()) would admit `token` to `resource`, and refuses nothing. Use it to
/// bring fencing to existing writers. `None`: a writer without a token.
///
/// It returns the message if the fence would have refused; logs it at INFO; counts it in
/// the metric `fencing_admissions_total` with `layer="sql"` and an outcome such as `shadow_stale`; and
/// keeps it in the table `fencing_refusals` ([`refusals`]), if the transaction commits. It
/// raises the mark as `admit` does, if it need not wait for that.
///
/// **Fencing.** None. It tries to wait for no other transaction; `docs/sql.md` lists where it may wait
/// nevertheless.
///
/// # Errors
/// Those of the database; roll the transaction back. On MySQL also a deadlock, and with
/// `innodb_snapshot_isolation` a mark that is newer than the snapshot: both have ended the
/// transaction already, and are retryable.
///
/// # Cancel safety
/// If it is dropped, it may or may not have been done: roll the transaction back.
pub async fn admit_in_shadow<DB: Database>(
    tx: &mut Transaction<'_, DB>,
    resource: &Resource,
    token: Option<Token>,
) -> Result<Option<String>, AdmitError> {
    let refused = look::<DB>(tx, resource, token).await?;
    let (cause, message) = match &refused {
        None => ("admitted", None),
        Some(said) => {
            let (cause, message) = said.split_once(' ').unwrap_or(("failed", said));
            (cause, Some(message.to_owned()))
        }
    };
    if let Some(message) = &message {
        tracing::info!(message, "transaction would not be admitted");
    }
    let label = match cause {
        "admitted" => "admitted",
        "stale" => "shadow_stale",
        "unpresented" => "shadow_unpresented",
        "malformed" => "shadow_malformed",
        "waits" => "shadow_waits",
        _ => "shadow_failed",
    };
    metrics::counter!("fencing_admissions_total", "layer" => "sql", "outcome" => label)
        .increment(1);
    Ok(message)
}

/// Returns the cause, a space, and the message, if the token would be refused.
async fn look<DB: Database>(
    conn: &mut DB::Connection,
    resource: &Resource,
    token: Option<Token>,
) -> sqlx::Result<Option<String>> {
    let number = token.map_or_else(|| "NULL".to_owned(), |token| token.to_string());
    let name = DB::DIALECT.literal(resource.as_str());
    match DB::DIALECT {
        Dialect::Postgres => {
            let look = format!("SELECT fencing_shadow({name}, {number}, 'admit')");
            DB::first_text(conn, look, Vec::new()).await
        }
        Dialect::MySql => {
            let call = format!("CALL fencing_shadow({name}, {number}, 'admit', @fencing_refused)");
            DB::execute(conn, call).await?;
            DB::first_text(conn, "SELECT @fencing_refused".into(), Vec::new()).await
        }
        Dialect::Sqlite => {
            let note =
                format!("INSERT INTO main.fencing_shadow VALUES ({name}, {number}, 'admit')");
            let mark = format!(
                "SELECT CAST(coalesce(
                    (SELECT token FROM main.fencing_marks WHERE resource = {name}),
                    (SELECT token + 1 FROM main.fencing_floor WHERE token > 0)) AS TEXT)"
            );
            // SQLite may refuse a write to a transaction that has read before. A refusal leaves the mark as it was.
            DB::execute(conn, note).await?;
            let mark = DB::first_text(conn, mark, Vec::new()).await?;
            let Some(token) = token else {
                let mark = mark.as_deref().unwrap_or("none");
                return Ok(Some(format!(
                    "unpresented fencing: no token presented, high water {mark}, resource {resource}"
                )));
            };
            let mark = mark.and_then(|mark| mark.parse().ok());
            let stale = Stale::check(resource, token, mark).err();
            Ok(stale.map(|Stale { highest, .. }| {
                format!(
                    "stale fencing: token {token} is stale, high water {highest}, resource {resource}"
                )
            }))
        }
    }
}

/// Lists the recorded refusals of shadow mode: the first of each place, resource,
/// cause and writer, in their order.
///
/// # Errors
/// As for [`highest`](super::highest()).
///
/// # Cancel safety
/// It changes nothing.
pub async fn refusals<DB: Database>(pool: &Pool<DB>) -> Result<Vec<Refused>, AdmitError> {
    let (table, name, at) = match DB::DIALECT {
        Dialect::Postgres => (
            "fencing_refusals",
            "resource",
            "to_char(first_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')",
        ),
        Dialect::MySql => (
            "fencing_refusals",
            "CONVERT(resource USING utf8mb4)",
            "CAST(CAST(first_at AS DATETIME) AS CHAR)",
        ),
        Dialect::Sqlite => ("main.fencing_refusals", "resource", "substr(first_at, 1, 19)"),
    };
    // Concurrent transactions may have added the same row.
    let select = format!(
        "SELECT place, {name}, cause, writer, message, {at} FROM {table} AS own WHERE NOT EXISTS (
            SELECT 1 FROM {table} AS earlier WHERE id < own.id AND place = own.place
                AND resource = own.resource AND cause = own.cause AND writer = own.writer)
        ORDER BY id"
    );
    let mut conn = pool.acquire().await?;
    let rows = DB::texts(&mut conn, select, Vec::new()).await?;
    let refused = |row: Texts| {
        let mut texts = row.into_iter().map(Option::unwrap_or_default);
        let mut text = || texts.next().unwrap_or_default();
        Refused {
            place: text(),
            resource: text(),
            cause: text(),
            writer: text(),
            message: text(),
            first_at: text(),
        }
    };
    Ok(rows.into_iter().map(refused).collect())
}
