use fencing_protocol::{Resource, Token};
use sqlx::pool::PoolConnection;
use sqlx::{Pool, Transaction};

use super::AdmitError;
use crate::database::{Database, Meaning, Opening, fill, meaning, open_transaction};
use crate::fence::Stale;
use crate::sequencer::Sequencer;

/// Admits `token` to `resource` for the rest of this transaction, or refuses it: compares
/// it with the mark and raises the mark to it, at once. Equal passes, lower is refused.
///
/// Call it before the transaction writes, preferably as its first statement: SQLite may refuse the first write of a
/// deferred transaction that has read, and under REPEATABLE READ or SERIALIZABLE one with an old snapshot is refused.
///
/// **Fencing.** From `Ok` until the transaction ends, no newer token is admitted to this resource, in this process or
/// another: it waits, or fails. So this transaction's writes never land after the first contact of a newer token. At
/// the first contact of a token, if the transaction rolls back, so does the mark, as nothing was written. So a deadlock
/// in it admits older tokens again: [`begin`] raises the mark for good first. The same holds for a savepoint: write
/// nothing after a rollback to one set before `admit`. It guards neither against writes outside this transaction nor
/// against writers that do not call it. Equal tokens run side by side on PostgreSQL and MySQL, except at the first
/// contact of their token, and a stream of them does not starve a newer one; SQLite has one writer at a time.
///
/// Under REPEATABLE READ a transaction reads what was there when it first looked, which may be before it waited here.
/// At the first contact of a token it may then miss what an older one wrote meanwhile, and on MySQL write over it. Use
/// [`begin`], which prevents that, or READ COMMITTED, or read what you are going to change with `FOR UPDATE`.
///
/// On MySQL a deadlock ends the transaction, and so does a statement that creates or alters a table: what the
/// connection writes after that is outside of it. Stop at the first error. On a Galera cluster whose nodes all take
/// writes the error can be lost: protect the tables there (docs/reference/sql.md, Clusters and replicas).
///
/// # Errors
/// [`AdmitError::Stale`] if the mark is higher. [`AdmitError::Retryable`] after a conflict with another transaction,
/// which says nothing about the token: run the transaction again. After any other error, do not write. The database's
/// settings say how long it waits for a lock (`lock_timeout`, `innodb_lock_wait_timeout`, `busy_timeout`).
///
/// # Cancel safety
/// If it is dropped, the token may or may not have been admitted: roll the transaction back.
///
/// The metric `fencing_admissions_total` counts calls with `layer="sql"` and outcome. A refusal is logged at INFO.
#[tracing::instrument(name = "fencing.admit", level = "debug", skip_all, fields(%resource, %token))]
pub async fn admit<DB: Database>(
    tx: &mut Transaction<'_, DB>,
    resource: &Resource,
    token: Token,
) -> Result<(), AdmitError> {
    count_outcome(compare_and_raise::<DB>(tx, DB::ADMIT, resource, token).await)
}

/// Admits by this statement over a connection, in its transaction if it has one.
pub(super) async fn compare_and_raise<DB: Database>(
    conn: &mut DB::Connection,
    admit: &'static str,
    resource: &Resource,
    token: Token,
) -> Result<(), AdmitError> {
    match DB::admit(conn, with_values::<DB>(admit, resource, token), resource, token).await {
        Ok(None) => Ok(()),
        Ok(Some(mark)) => {
            Stale::check(resource, token, Some(parse_mark(resource, Some(mark))?))?;
            Err(AdmitError::corrupt(resource, "the mark was neither raised nor above the token"))
        }
        Err(error) => Err(AdmitError::of(resource, token, error)),
    }
}

/// Opens a transaction and admits `token` to `resource` in it, in one round trip (two on MySQL).
///
/// On SQLite the transaction begins IMMEDIATE, so that it waits for its turn at the start
/// and its first write is never refused. Isolation is the database's default.
///
/// On PostgreSQL it presents the token to protected tables as well, together with the resource ([`present`]): the
/// transaction may write rows of this resource, and no others. On MySQL a presented token outlives the transaction, so
/// `begin` presents nothing, and clears one that an earlier transaction has left.
///
/// **Fencing.** As for [`admit`]. The transaction reads nothing that is older than its admission, on any level of
/// isolation: everything that older tokens wrote is there. On PostgreSQL and MySQL the first contact of a token is a
/// transaction of its own, which raises the mark and commits: the mark stays raised if this transaction rolls back, and
/// that costs one commit and four more round trips (five on MySQL) for each token.
///
/// # Errors
/// As for [`admit`]; the transaction has been rolled back, if the database could be reached.
///
/// # Cancel safety
/// If it is dropped, it rolls back. Its connection returns to the pool when the database has answered, which a wait for
/// a lock may delay: set a `lock_timeout` (`innodb_lock_wait_timeout`) if callers give up sooner than holders.
#[tracing::instrument(name = "fencing.admit", level = "debug", skip_all, fields(%resource, %token))]
pub async fn begin<DB: Database>(
    pool: &Pool<DB>,
    resource: &Resource,
    token: Token,
) -> Result<Transaction<'static, DB>, AdmitError> {
    count_outcome(open(pool, resource, token).await)
}

async fn open<DB: Database>(
    pool: &Pool<DB>,
    resource: &Resource,
    token: Token,
) -> Result<Transaction<'static, DB>, AdmitError> {
    match begin_with(pool.acquire().await?, DB::WRITING, resource, token).await {
        Err(AdmitError::Retryable(error)) if meaning(&error) == Some(Meaning::RaiseFirst) => {
            raise(pool, resource, token).await?;
            begin_with(pool.acquire().await?, DB::WRITING, resource, token).await
        }
        begun => begun,
    }
}

/// Raises the mark in a transaction of its own: no deadlock with a writer that has locked a row can take that back.
pub(super) async fn raise<DB: Database>(pool: &Pool<DB>, resource: &Resource, token: Token) -> Result<(), AdmitError> {
    Ok(begin_with(pool.acquire().await?, DB::RAISING, resource, token).await?.commit().await?)
}

pub(super) async fn begin_with<DB: Database>(
    conn: PoolConnection<DB>,
    opening: Opening,
    resource: &Resource,
    token: Token,
) -> Result<Transaction<'static, DB>, AdmitError> {
    let begun = open_transaction(conn, with_values::<DB>(opening.begin, resource, token)).await;
    let mut tx = begun.map_err(|error| AdmitError::of(resource, token, error))?;
    let Some(admit) = opening.admit else { return Ok(tx) };
    let admitted = compare_and_raise::<DB>(&mut tx, admit, resource, token).await;
    Ok(keep_or_roll_back(tx, admitted).await?.0)
}

fn with_values<DB: Database>(sql: &str, resource: &Resource, token: Token) -> String {
    fill(sql, &[("{resource}", &DB::literal(resource.as_str())), ("{token}", &token)])
}

/// Returns transaction and result, or rolls back: dropped, it would keep its locks until the connection's next use.
pub(super) async fn keep_or_roll_back<DB: Database, T>(
    tx: Transaction<'static, DB>,
    result: Result<T, AdmitError>,
) -> Result<(Transaction<'static, DB>, T), AdmitError> {
    match result {
        Ok(result) => Ok((tx, result)),
        Err(error) => {
            let _ = tx.rollback().await;
            Err(error)
        }
    }
}

/// Counts the result of an admission, and logs a refusal, as the fence in one process does.
pub(super) fn count_outcome<T>(outcome: Result<T, AdmitError>) -> Result<T, AdmitError> {
    match &outcome {
        Ok(_) => {}
        Err(error @ AdmitError::Retryable(_)) => tracing::debug!(%error, "transaction not admitted"),
        Err(error) => tracing::info!(%error, "transaction not admitted"),
    }
    let label = outcome.as_ref().err().map_or("admitted", AdmitError::label);
    metrics::counter!("fencing_admissions_total", "layer" => "sql", "outcome" => label).increment(1);
    outcome
}

/// Reads a mark. If the table was altered by hand, it may be no number, or no token.
pub(super) fn parse_mark(resource: &Resource, number: Option<i64>) -> Result<Token, AdmitError> {
    let number = number.ok_or_else(|| AdmitError::corrupt(resource, "it is no number"))?;
    Token::try_from(number).map_err(|error| AdmitError::corrupt(resource, format!("it is {number}: {error}")))
}

/// Checks whether [`admit`] would admit `token` to `resource`, and refuses nothing. Use it to
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
    let refusal = if let Some(token) = token { refusal::<DB>(tx, resource, token).await? } else { None };
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
    let Err(error) = compare_and_raise::<DB>(conn, DB::ADMIT_IN_SHADOW, resource, token).await else {
        DB::execute(conn, RELEASE.into()).await?;
        return Ok(None);
    };
    match DB::execute(conn, format!("ROLLBACK TO SAVEPOINT fencing_shadow; {RELEASE}")).await {
        Ok(()) => Ok(Some(error)),
        Err(_) => Err(error),
    }
}

/// A presentation to protected tables: a [`Sequencer`], or a bare [`Token`].
#[derive(Debug, Clone)]
pub struct Presented(String);

impl From<&Sequencer> for Presented {
    fn from(sequencer: &Sequencer) -> Presented {
        Presented(sequencer.to_string())
    }
}

impl From<Token> for Presented {
    fn from(token: Token) -> Presented {
        Presented(token.to_string())
    }
}

/// Presents a sequencer to the triggers of protected tables (`fencing db protect`), which admit its token to its resource
/// when a row of that is written next. Rows of other resources are refused as [`AdmitError::Unpresented`].
///
/// A bare token is admitted to the resource of every row written next. It guards less: the holder
/// of one lease may then write what belongs to another, and shut out the other's holder if the
/// token is larger. Present a bare token only where one statement writes rows of several resources.
///
/// On PostgreSQL it lasts until the transaction ends, or until the next is presented. On MySQL it
/// lasts for the next statement that writes to a protected table: present before each. On SQLite
/// it does nothing: there the write itself presents, in the column `fencing_token`.
///
/// **Fencing.** It counts for everything that is written next: in a transaction that writes under several leases,
/// present each one's sequencer before its statements. Nothing of it is left for later users of the session. There is
/// one exception: if no statement writes after it, what you presented on MySQL stays in the session until
/// [`begin`] clears it, or `SET @fencing_sequencer = NULL, @fencing_token = NULL`.
///
/// # Errors
/// As for [`admit`], but never [`AdmitError::Stale`]: the write returns that.
///
/// # Cancel safety
/// If it is dropped, it may or may not have been presented: roll the transaction back.
pub async fn present<DB: Database>(tx: &mut Transaction<'_, DB>, what: impl Into<Presented>) -> Result<(), AdmitError> {
    if let Some(present) = DB::present(&what.into().0) { Ok(DB::execute(tx, present).await?) } else { Ok(()) }
}
