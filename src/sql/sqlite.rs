use futures_util::future::BoxFuture;
use sqlx::error::DatabaseError;
use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteError;
use sqlx::{Pool, Sqlite, SqliteConnection};

use super::backend::{Backend, Refusal, Row, parse};
use super::migrate::in_one_transaction;
use super::statement::sqlite::{BEGIN, HIGHEST};
use super::{AdmitError, MigrateError, Protect, message};
use crate::fence::Stale;
use crate::resource::Resource;
use crate::token::Token;

/// Writes the row for an equal token as well: what keeps a newer token out until the
/// transaction ends is the database's one write lock, and a mere read does not take it.
/// A mark below 1 is left to be found corrupt.
const RAISE: &str = "
    INSERT INTO fencing_marks (resource, token) VALUES (?1, ?2)
    ON CONFLICT (resource) DO UPDATE SET token = excluded.token
    WHERE fencing_marks.token BETWEEN 1 AND excluded.token";

const LIST: &str = "
    SELECT CAST(resource AS BLOB), token FROM fencing_marks
    WHERE resource > CAST(?1 AS TEXT) ORDER BY resource LIMIT ?2";

/// What the error means, if it is one of this database's.
pub(super) fn refusal(error: &dyn DatabaseError) -> Option<Refusal> {
    let error = error.try_downcast_ref::<SqliteError>()?;
    // An extended code, BUSY_SNAPSHOT say, has the primary one in its low byte.
    let code = error.code().and_then(|code| code.parse::<i32>().ok());
    Some(match code.map(|code| code & 0xff) {
        // BUSY, LOCKED, and PROTOCOL: the race for a WAL's locks was lost too often.
        Some(5 | 6 | 15) => Refusal::Conflict,
        Some(1) if error.message() == "no such table: fencing_marks" => Refusal::NoTable,
        _ => refused(error.message()),
    })
}

/// There are no states here: a message of ours is what says it. It stands in quotes.
fn refused(text: &str) -> Refusal {
    let inner = text.split_once('\'').and_then(|(_, text)| text.rsplit_once('\''));
    let text = inner.map_or_else(|| text.to_owned(), |(text, _)| text.replace("''", "'"));
    if text.starts_with(message::NO_TOKEN) {
        return Refusal::Unpresented;
    }
    Refusal::of_own(message::STALE, &text)
}

impl Backend for Sqlite {
    const BEGIN: &'static str = BEGIN;

    const MIGRATIONS: &'static [(i64, &'static str, &'static str)] = &[
        (1, "fencing marks", include_str!("../../migrations/sqlite/0001_fencing_marks.sql")),
        (2, "fencing admit", include_str!("../../migrations/sqlite/0002_fencing_admit.sql")),
        (3, "fencing leases", include_str!("../../migrations/sqlite/0003_fencing_leases.sql")),
    ];

    fn begin_admitted(_: &Resource, _: Token) -> Option<String> {
        None
    }

    fn execute<'a>(conn: &'a mut SqliteConnection, sql: String) -> BoxFuture<'a, sqlx::Result<()>> {
        let sql = sqlx::AssertSqlSafe(sql);
        Box::pin(async move { sqlx::raw_sql(sql).execute(conn).await.map(drop) })
    }

    fn present(_: &mut SqliteConnection, _: Token) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn protect(protect: &Protect) -> Vec<String> {
        super::protect::sqlite::statements(protect)
    }

    fn prepare_protect<'a>(
        protect: &'a Protect,
        conn: &'a mut SqliteConnection,
    ) -> BoxFuture<'a, sqlx::Result<Vec<String>>> {
        super::protect::sqlite::prepare(protect, conn)
    }

    fn migrate(pool: &Pool<Sqlite>, migrator: Migrator) -> BoxFuture<'_, Result<(), MigrateError>> {
        // IMMEDIATE takes the write lock.
        Box::pin(in_one_transaction(pool, Sqlite::BEGIN, None, migrator))
    }

    fn admit<'a>(
        conn: &'a mut SqliteConnection,
        resource: &'a Resource,
        token: Token,
    ) -> BoxFuture<'a, Result<(), AdmitError>> {
        Box::pin(async move {
            let raised = sqlx::query(RAISE)
                .bind(resource.as_str())
                .bind(i64::from(token))
                .execute(&mut *conn)
                .await?;
            if raised.rows_affected() == 1 {
                return Ok(());
            }
            match Sqlite::mark(conn, resource).await? {
                Some(highest) if highest > token => {
                    Err(Stale { resource: resource.clone(), presented: token, highest }.into())
                }
                _ => Err(AdmitError::corrupt(resource, "it was neither raised nor higher")),
            }
        })
    }

    fn list<'a>(
        conn: &'a mut SqliteConnection,
        after: &'a [u8],
        limit: u32,
    ) -> BoxFuture<'a, sqlx::Result<Vec<Row>>> {
        let list = sqlx::query_as(LIST).bind(after).bind(i64::from(limit));
        Box::pin(list.fetch_all(conn))
    }

    fn mark<'a>(
        conn: &'a mut SqliteConnection,
        resource: &'a Resource,
    ) -> BoxFuture<'a, Result<Option<Token>, AdmitError>> {
        Box::pin(async move {
            let query = sqlx::query_scalar::<_, Option<i64>>(HIGHEST).bind(resource.as_str());
            parse(resource, query.fetch_optional(conn).await)
        })
    }
}
