use fencing_protocol::{Resource, Token};
use sqlx::Pool;

use super::AdmitError;
use super::admit::{begin_with, parse_mark};
use super::retry::{Retry, retry};
use crate::database::{Database, TextRow, fill, procedure_connection};
use crate::fence::{FenceError, Marks, MarksFuture, Stale};

/// How a raise is tried again after conflicts with other transactions.
const RETRY: Retry = Retry::new().tries(5);

/// High-water marks in a database, for a [fence](crate::fence) whose writes go elsewhere.
///
/// Cloning is cheap and shares the pool. Run [`migrate`](super::migrate()) first.
///
/// **Fencing.** One statement compares and raises the mark, and it is committed before the token passes. All processes
/// of this database share its marks. The write that follows is outside of that: only the fence's gate makes a newer
/// token wait for it, in one process. If the data is in this database, use [`admit`](super::admit()) instead. A proxy
/// may send reads to replicas: no token passes by a replica's answer. A commit must be on disk when acknowledged, as by
/// default: with `synchronous_commit = off` (PostgreSQL) or `synchronous = OFF` (SQLite) a crash loses marks.
#[derive(Debug)]
pub struct SqlMarks<DB: Database> {
    pool: Pool<DB>,
}

impl<DB: Database> SqlMarks<DB> {
    /// Keeps marks in the database of this pool. The pool's `acquire_timeout` says how long it waits for a connection.
    pub fn new(pool: Pool<DB>) -> SqlMarks<DB> {
        SqlMarks { pool }
    }
}

impl<DB: Database> Clone for SqlMarks<DB> {
    fn clone(&self) -> SqlMarks<DB> {
        SqlMarks { pool: self.pool.clone() }
    }
}

impl<DB: Database> Marks for SqlMarks<DB> {
    fn raise<'a>(&'a self, resource: &'a Resource, token: Token) -> MarksFuture<'a, ()> {
        Box::pin(async move { retry(RETRY, || raise(&self.pool, resource, token)).await.map_err(marks_error) })
    }

    fn highest<'a>(&'a self, resource: &'a Resource) -> MarksFuture<'a, Option<Token>> {
        Box::pin(async move { highest(&self.pool, resource).await.map_err(marks_error) })
    }

    fn list<'a>(&'a self, after: Option<&'a Resource>, limit: usize) -> MarksFuture<'a, Vec<(Resource, Token)>> {
        Box::pin(async move { read_valid(&self.pool, after, limit).await.map_err(marks_error) })
    }
}

/// Raises the mark, and locks nothing for longer than its own commit. It limits its wait for others' locks: a statement
/// whose future is dropped continues in the server and keeps its connection, so that one client paused in its
/// transaction would take all connections of the pool one by one. (MySQL, unlike MariaDB, knows no such limit for one
/// statement: set a short `innodb_lock_wait_timeout` there.)
async fn raise<DB: Database>(pool: &Pool<DB>, resource: &Resource, token: Token) -> Result<(), AdmitError> {
    let mut conn = pool.acquire().await?;
    // Marks only grow: the newest one decides unless it is lower. A read costs no commit.
    if let Some(newest) = DB::NEWEST {
        let highest = read::<DB>(&mut conn, newest, resource).await?;
        Stale::check(resource, token, highest)?;
        if highest == Some(token) {
            return Ok(());
        }
    }
    Ok(begin_with(conn, DB::BOUNDED, resource, token).await?.commit().await?)
}

async fn read_valid<DB: Database>(
    pool: &Pool<DB>,
    after: Option<&Resource>,
    limit: usize,
) -> Result<Vec<(Resource, Token)>, AdmitError> {
    let mut found = Vec::new();
    let mut after = after.map_or(&b""[..], |after| after.as_str().as_bytes()).to_vec();
    while found.len() < limit {
        let rows = marks(pool, &after, u32::try_from(limit - found.len()).unwrap_or(u32::MAX)).await?;
        let Some(last) = rows.last() else { break };
        after.clone_from(&last.name);
        found.extend(rows.iter().filter_map(Mark::parse));
    }
    Ok(found)
}

/// Marks with repeated conflicts count as unreachable: no transaction of the caller was rolled back.
fn marks_error(error: AdmitError) -> FenceError {
    if let AdmitError::Retryable(_) = error { FenceError::Unreachable(Box::new(error)) } else { error.into() }
}

/// Reads the mark of `resource`, if any: the highest token of a committed transaction. For operators and tests.
///
/// **Fencing.** None: the mark may be higher when you read it. Never use it as a token; tokens come only from leases.
///
/// # Errors
/// As for [`admit`](super::admit()), but never [`AdmitError::Stale`].
///
/// # Cancel safety
/// It changes nothing.
pub async fn highest<DB: Database>(pool: &Pool<DB>, resource: &Resource) -> Result<Option<Token>, AdmitError> {
    let mut conn = pool.acquire().await?;
    read::<DB>(&mut conn, DB::HIGHEST, resource).await
}

async fn read<DB: Database>(conn: &mut DB::Connection, by: &str, name: &Resource) -> Result<Option<Token>, AdmitError> {
    let rows = DB::texts(conn, by.replace(DB::PARAMETER, &DB::literal(name.as_str()))).await?;
    rows.first().map(|row| parse_mark(name, row.number(0))).transpose()
}

/// One row of the table of marks, valid or not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mark {
    /// The bytes of the name. They should be those of a [`Resource`], but may be anything.
    pub name: Vec<u8>,
    /// The number. It should be that of a [`Token`], but may be anything.
    pub number: Option<i64>,
}

impl Mark {
    /// Returns the resource and its mark, if both are valid.
    pub fn parse(&self) -> Option<(Resource, Token)> {
        let name = std::str::from_utf8(&self.name).ok()?;
        Some((Resource::new(name).ok()?, Token::try_from(self.number?).ok()?))
    }
}

/// Reads the marks whose names come after `after`, up to `limit` of them, ordered by the bytes of
/// their names. For operators: start with `&[]` and continue with the last name.
///
/// **Fencing.** None, as for [`highest`](super::highest()).
///
/// # Errors
/// As for [`highest`](super::highest()).
///
/// # Cancel safety
/// It changes nothing.
pub async fn marks<DB: Database>(pool: &Pool<DB>, after: &[u8], limit: u32) -> Result<Vec<Mark>, AdmitError> {
    let mut conn = pool.acquire().await?;
    let after = DB::literal(after);
    let rows = DB::texts(&mut conn, fill(DB::LIST, &[("{after}", &after), ("{limit}", &limit)])).await?;
    let mark = |row: &TextRow| Mark { name: row.bytes(0).unwrap_or_default(), number: row.number(1) };
    Ok(rows.iter().map(mark).collect())
}

/// Lowers the mark of `resource` from `from` to `to`. For operators, if a token that was never granted
/// has raised the mark and all holders of leases are refused.
///
/// It adds a line to the table `fencing_audit`: the resource, the mark before and after, time and user (SQLite
/// has no users). It waits for transactions that write at the mark, on PostgreSQL for ten seconds at most. If
/// [`SqlLock`](crate::lock::sql::SqlLock) has granted the last token there is, the next lease gets a token after
/// `to`. Then `from` may also be that last token: the mark itself stays in that case, unless no token is left
/// above it. If the mark has changed since you read it, nothing happens: a second call, or a second operator,
/// undoes no newer raise. On MySQL it is a separate transaction.
///
/// **Fencing.** This gives up a promise of the fence: every token from `to` on may write again,
/// even one that was refused as stale. Choose a token not below any granted one, or stop all old
/// writers first. Marks elsewhere, as in a [`MemoryMarks`](crate::fence::MemoryMarks), do not fall.
///
/// # Errors
/// As for [`admit`](super::admit()), but never [`AdmitError::Stale`]. [`AdmitError::Database`] with the SQLSTATE
/// `ZF403` and the present mark in its message if the mark is not exactly `from`, or `from` is not above `to`.
///
/// # Cancel safety
/// If it is dropped, the mark was lowered and the line written, or neither.
pub async fn lower<DB: Database>(
    pool: &Pool<DB>,
    resource: &Resource,
    from: Token,
    to: Token,
) -> Result<(), AdmitError> {
    let mut conn = procedure_connection(pool).await?;
    let name = DB::literal(resource.as_str());
    let lower = fill(DB::LOWER, &[("{resource}", &name), ("{from}", &from), ("{to}", &to)]);
    Ok(DB::execute(&mut conn, lower).await?)
}
