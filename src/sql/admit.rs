use fencing_protocol::{Resource, Token};
use sqlx::pool::PoolConnection;
use sqlx::{Pool, Transaction};

use super::AdmitError;
use super::error::is_to_raise_first;
use crate::database::opening::OpeningTransaction;
use crate::database::{AdmitAnswer, Database, Texts};
use crate::fence::Stale;

/// Admits `token` to `resource` for the rest of this transaction, or refuses it: compares
/// it with the mark and raises the mark to it, at once. Equal passes, lower is refused.
///
/// Call it before the transaction writes, preferably as its first statement: SQLite may refuse the
/// first write of a deferred transaction that has read, and under REPEATABLE READ or SERIALIZABLE a
/// transaction with an old snapshot is refused.
///
/// **Fencing.** From `Ok` until the transaction ends, no newer token is admitted to this
/// resource, neither here nor in another process: it waits, or fails. What this
/// transaction writes therefore never lands after the first contact of a newer token.
/// At the first contact of a token, if the transaction rolls back, so does the mark, as nothing was written. So a
/// deadlock in it admits older tokens again: [`begin`] raises the mark for good first. The same holds
/// for a savepoint: write nothing after you roll back to one that you set before `admit`.
/// It guards neither against writes outside this transaction nor against writers that do not call
/// it. Equal tokens run side by side on PostgreSQL and MySQL, except at the first contact of their
/// token, and a stream of them does not starve a newer one; SQLite has one writer at a time.
///
/// Under REPEATABLE READ a transaction reads what was there when it first looked, which may
/// be before it waited here. At the first contact of a token it may then miss what an older
/// one wrote meanwhile, and on MySQL write over it. Use [`begin`], which prevents that, or
/// READ COMMITTED, or read what you are going to change with `FOR UPDATE`.
///
/// On MySQL a deadlock ends the transaction, and so does a statement that creates or
/// alters a table: what the connection writes after that is outside of it. Stop at the
/// first error. On a Galera cluster whose nodes all take writes the error can be lost: protect the tables there
/// (docs/sql.md, Clusters and replicas).
///
/// # Errors
/// [`AdmitError::Stale`] if the mark is higher. [`AdmitError::Retryable`] after a conflict with another
/// transaction, which says nothing about the token: run the transaction
/// again. After any other error, do not write. The database's settings say how long it waits
/// for a lock (`lock_timeout`, `innodb_lock_wait_timeout`, `busy_timeout`).
///
/// # Cancel safety
/// If it is dropped, the token may or may not have been admitted: roll the transaction back.
///
/// Each call counts in the metric `fencing_admissions_total` with `layer="sql"` and its outcome. A
/// refusal is logged at INFO.
#[tracing::instrument(name = "fencing.admit", level = "debug", skip_all, fields(%resource, %token))]
pub async fn admit<DB: Database>(
    tx: &mut Transaction<'_, DB>,
    resource: &Resource,
    token: Token,
) -> Result<(), AdmitError> {
    counted(compare_and_raise::<DB>(tx, resource, token).await)
}

/// Admits over a connection, in its transaction if it has one.
async fn compare_and_raise<DB: Database>(
    conn: &mut DB::Connection,
    resource: &Resource,
    token: Token,
) -> Result<(), AdmitError> {
    let answer = DB::admit(conn, resource, token).await;
    judged::<DB>(conn, resource, token, answer).await
}

/// Reads the answer of an admission over this connection.
pub(super) async fn judged<DB: Database>(
    conn: &mut DB::Connection,
    resource: &Resource,
    token: Token,
    answer: sqlx::Result<AdmitAnswer>,
) -> Result<(), AdmitError> {
    match answer {
        Ok(AdmitAnswer::Admitted) => Ok(()),
        Ok(AdmitAnswer::Refused(mark)) => {
            let mark = match mark {
                Some(number) => Some(parse(resource, Some(number.to_string()))?),
                None => self::mark::<DB>(conn, resource).await?,
            };
            Stale::check(resource, token, mark)?;
            Err(AdmitError::corrupt(resource, "it was neither raised nor higher"))
        }
        Err(error) => Err(AdmitError::of(resource, token, error)),
    }
}

/// Opens a transaction and admits `token` to `resource` in it, in one round trip (two on
/// MySQL).
///
/// On SQLite the transaction begins IMMEDIATE, so that it waits for its turn at the start
/// and its first write is never refused. Isolation is the database's default.
///
/// On PostgreSQL it presents the token to protected tables as well, together with the resource
/// ([`present`](super::present())): the transaction may write rows of this resource, and no
/// others. On MySQL a presented token outlives the transaction, so `begin` presents
/// nothing, and clears one that an earlier transaction has left.
///
/// **Fencing.** As for [`admit`]. The transaction reads nothing that is older than its
/// admission, on any level of isolation: everything that older tokens wrote is there. On
/// PostgreSQL and MySQL the first contact of a token is a transaction of its own, which raises the mark and
/// commits: the mark stays raised if this transaction rolls back, and that costs one commit and four more round trips
/// (five on MySQL) for each token.
///
/// # Errors
/// As for [`admit`]; the transaction has been rolled back, if the database could be reached.
///
/// # Cancel safety
/// If it is dropped, the transaction is rolled back. Its connection goes back to the pool
/// when the database has answered, which a wait for a lock may delay: set a `lock_timeout`
/// (`innodb_lock_wait_timeout`) where callers give up sooner than holders.
#[tracing::instrument(name = "fencing.admit", level = "debug", skip_all, fields(%resource, %token))]
pub async fn begin<DB: Database>(
    pool: &Pool<DB>,
    resource: &Resource,
    token: Token,
) -> Result<Transaction<'static, DB>, AdmitError> {
    counted(open(pool, resource, token).await)
}

async fn open<DB: Database>(
    pool: &Pool<DB>,
    resource: &Resource,
    token: Token,
) -> Result<Transaction<'static, DB>, AdmitError> {
    let Some(share) = DB::begin_admitted(resource, token) else {
        return step_by_step(pool.acquire().await?, DB::BEGIN, resource, token).await;
    };
    let mut begun = OpeningTransaction::admitted(pool.acquire().await?, share.clone()).await;
    if begun.as_ref().is_err_and(is_to_raise_first) {
        raise(pool, resource, token).await?;
        begun = OpeningTransaction::admitted(pool.acquire().await?, share).await;
    }
    begun.map_err(|error| AdmitError::of(resource, token, error))
}

/// Raises the mark in a transaction that holds nothing else: no deadlock with a writer that has locked a row
/// can take the raise back.
pub(super) async fn raise<DB: Database>(
    pool: &Pool<DB>,
    resource: &Resource,
    token: Token,
) -> Result<(), AdmitError> {
    let raised = step_by_step(pool.acquire().await?, DB::BEGIN_RAISING, resource, token).await?;
    Ok(raised.commit().await?)
}

/// Begins a transaction, and admits in it by another statement.
pub(super) async fn step_by_step<DB: Database>(
    conn: PoolConnection<DB>,
    begin: &'static str,
    resource: &Resource,
    token: Token,
) -> Result<Transaction<'static, DB>, AdmitError> {
    let mut tx = OpeningTransaction::new(conn, begin.into()).await?;
    match compare_and_raise::<DB>(&mut tx, resource, token).await {
        Ok(()) => Ok(tx),
        Err(error) => {
            // A drop would keep its locks until the connection's next use.
            let _ = tx.rollback().await;
            Err(error)
        }
    }
}

/// Counts the result of an admission, and logs a refusal, as the fence in one process does.
pub(super) fn counted<T>(outcome: Result<T, AdmitError>) -> Result<T, AdmitError> {
    let label = match &outcome {
        Ok(_) => "admitted",
        Err(error @ AdmitError::Retryable(_)) => {
            tracing::debug!(%error, "transaction not admitted");
            error.label()
        }
        Err(error) => {
            tracing::info!(%error, "transaction not admitted");
            error.label()
        }
    };
    metrics::counter!("fencing_admissions_total", "layer" => "sql", "outcome" => label)
        .increment(1);
    outcome
}

/// Reads the mark of `resource`: the highest token that a committed transaction presented,
/// if there was one. For operators and tests.
///
/// **Fencing.** None: the mark may be higher by the time that you read it. Never use it as a
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
    mark::<DB>(&mut conn, resource).await
}

pub(super) async fn mark<DB: Database>(
    conn: &mut DB::Connection,
    resource: &Resource,
) -> Result<Option<Token>, AdmitError> {
    read(resource, DB::texts(conn, DB::mark(resource), Vec::new()).await?)
}

/// Reads the mark over this connection, if that is surely the newest one.
pub(super) async fn newest_mark<DB: Database>(
    conn: &mut DB::Connection,
    resource: &Resource,
) -> Result<Option<Token>, AdmitError> {
    let Some(mark) = DB::newest_mark(resource) else { return Ok(None) };
    read(resource, DB::texts(conn, mark, Vec::new()).await?)
}

fn read(resource: &Resource, rows: Vec<Texts>) -> Result<Option<Token>, AdmitError> {
    rows.into_iter().flatten().next().map(|number| parse(resource, number)).transpose()
}

/// Reads a mark. If the table was altered by hand, it may be NULL, or no token.
fn parse(resource: &Resource, number: Option<String>) -> Result<Token, AdmitError> {
    let number = number.ok_or_else(|| AdmitError::corrupt(resource, "it is NULL"))?;
    number
        .parse()
        .map_err(|error| AdmitError::corrupt(resource, format!("it is {number}: {error}")))
}
