use fencing_protocol::{Resource, Token};
use sqlx::Pool;

use super::AdmitError;
use crate::database::{Database, Kind};

/// Lowers the mark of `resource` from `from` to `to`. It is the way back for an operator, if a token that
/// was never granted has raised the mark and all holders of leases are refused.
///
/// It leaves a line in the table `fencing_audit`: the resource, the mark before and after, when,
/// and by whom (SQLite knows no users). It waits for transactions that write at the mark, on
/// PostgreSQL for ten seconds at most. If
/// [`SqlLock`](crate::lock::sql::SqlLock) has granted the last token there is, the next lease gets a token after
/// `to`. Then `from` may also be that last token: the mark itself stays as it is in that case, unless no token is
/// left above it. If the mark has moved since you read it, nothing happens: a second call, or a second operator,
/// undoes nothing that newer tokens have raised. On MySQL it is a transaction of its own.
///
/// **Fencing.** It takes back what the fence promises: every token from `to` on may write again,
/// even one that was refused as stale. Choose a token that is not below any that was granted, or
/// stop all old writers first. Marks elsewhere, as in a [`MemoryMarks`](crate::fence::MemoryMarks),
/// do not fall.
///
/// # Errors
/// As for [`admit`](super::admit()), but never [`AdmitError::Stale`]. [`AdmitError::Database`]
/// with the SQLSTATE `ZF403` and the present mark in its message if the mark is not
/// exactly `from`, or `from` is not above `to`.
///
/// # Cancel safety
/// If it is dropped, the mark was lowered and the line written, or neither.
pub async fn lower<DB: Database>(
    pool: &Pool<DB>,
    resource: &Resource,
    from: Token,
    to: Token,
) -> Result<(), AdmitError> {
    let mut conn = pool.acquire().await?;
    if DB::KIND == Kind::MySql {
        // A call that is interrupted leaves its transaction open.
        conn.close_on_drop();
    }
    Ok(DB::lower(&mut conn, resource, from, to).await?)
}
