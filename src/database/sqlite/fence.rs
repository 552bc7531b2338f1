use fencing_protocol::{Resource, Token};
use sqlx::error::BoxDynError;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments as _, AssertSqlSafe, Pool, Sqlite, SqliteConnection};

use crate::database::opening::in_one_transaction;
use crate::database::texts::texts;
use crate::database::{AdmitAnswer, FenceStatements, Migrations, Prunable, Row, Texts};

/// Begins a transaction that is going to write: SQLite may refuse the first write of a
/// deferred one that has read.
pub const BEGIN: &str = "BEGIN IMMEDIATE";

/// Reads the mark, without a lock: the resource as text. No row means no mark.
pub const HIGHEST: &str = "SELECT token FROM main.fencing_marks WHERE resource = ?1";

/// Writes the row for an equal token as well: what keeps a newer token out until the
/// transaction ends is the database's one write lock, and a mere read does not take it.
/// A mark below 1 stays, and is reported as corrupt.
///
/// `NOT EXISTS`: the trigger that guards the marks takes any INSERT of a lower one for an
/// attempt to lower it.
///
/// `main`: a temporary table with this name would come first.
const RAISE: &str = "
    INSERT INTO main.fencing_marks AS mark (resource, token) SELECT ?1, ?2
    WHERE NOT EXISTS (SELECT 1 FROM main.fencing_marks WHERE resource = ?1 AND token > ?2)
    ON CONFLICT (resource) DO UPDATE SET token = excluded.token,
        raised_at = iif(mark.token = excluded.token, mark.raised_at, excluded.raised_at)
    WHERE mark.token BETWEEN 1 AND excluded.token";

/// What may be pruned, but for the names: raised ?1 seconds ago, and no lease that lasts.
const PRUNABLE: &str = "
    mark.raised_at <= unixepoch() - ?1 AND NOT EXISTS (SELECT 1 FROM main.fencing_leases AS lease
        WHERE lease.resource = mark.resource
            AND lease.expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER))";

/// A lease that lasts, and has no mark yet, gets it: its token would be refused.
const MARK_LEASES: &str = "
    INSERT INTO main.fencing_marks (resource, token)
    SELECT resource, token FROM main.fencing_leases AS lease
    WHERE expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) AND token <= ?1
        AND token > (SELECT token FROM main.fencing_floor)
        AND NOT EXISTS (SELECT 1 FROM main.fencing_marks AS mark WHERE mark.resource = lease.resource)";

const RAISE_FLOOR: &str = "UPDATE main.fencing_floor SET token = ?1 WHERE token < ?1";

const LOWER: &str = "INSERT INTO main.fencing_lower VALUES (?1, ?2, ?3)";

const LIST: &str = "
    SELECT CAST(resource AS BLOB), token FROM main.fencing_marks
    WHERE resource > CAST(?1 AS TEXT) ORDER BY resource LIMIT ?2";

/// The schema keeps the text from the name on.
const PARTS: &str = "SELECT 'trigger ' || name, substr(sql, 16), NULL
    FROM main.sqlite_schema WHERE type = 'trigger'";

impl FenceStatements for Sqlite {
    const BEGIN: &'static str = BEGIN;

    const PARTS: &'static str = PARTS;

    const REMOVAL: &'static str = include_str!("../../../migrations/sqlite/remove.sql");

    const MIGRATIONS: Migrations = &[
        (1, "fencing marks", include_str!("../../../migrations/sqlite/0001_fencing_marks.sql")),
        (2, "fencing admit", include_str!("../../../migrations/sqlite/0002_fencing_admit.sql")),
        (3, "fencing leases", include_str!("../../../migrations/sqlite/0003_fencing_leases.sql")),
        (4, "fencing lower", include_str!("../../../migrations/sqlite/0004_fencing_lower.sql")),
        (5, "fencing shadow", include_str!("../../../migrations/sqlite/0005_fencing_shadow.sql")),
        (6, "fencing prune", include_str!("../../../migrations/sqlite/0006_fencing_prune.sql")),
    ];

    /// The statement that writes has the database's one write lock from its start.
    fn held(
        values: &mut SqliteArguments,
        resource: &Resource,
        token: Token,
    ) -> Result<Option<String>, BoxDynError> {
        values.add(resource.as_str().to_owned())?;
        values.add(i64::from(token))?;
        let (name, number) = (values.len() - 1, values.len());
        Ok(Some(format!(
            "EXISTS (SELECT 1 FROM main.fencing_marks WHERE resource = ?{name} AND token = ?{number})"
        )))
    }

    async fn run(
        conn: &mut SqliteConnection,
        sql: String,
        values: SqliteArguments,
    ) -> sqlx::Result<u64> {
        let run = sqlx::query_with(sqlx::AssertSqlSafe(sql), values);
        Ok(run.execute(conn).await?.rows_affected())
    }

    async fn execute(conn: &mut SqliteConnection, sql: String) -> sqlx::Result<()> {
        let sql = sqlx::AssertSqlSafe(sql);
        sqlx::raw_sql(sql).execute(conn).await.map(drop)
    }

    async fn present(_: &mut SqliteConnection, _: Token, _: Option<&Resource>) -> sqlx::Result<()> {
        Ok(())
    }

    async fn texts(
        conn: &mut SqliteConnection,
        sql: String,
        values: Vec<Option<String>>,
    ) -> sqlx::Result<Vec<Texts>> {
        texts::<Self>(conn, sql, values).await
    }

    async fn migrate(pool: &Pool<Sqlite>, migrator: Migrator) -> Result<bool, MigrateError> {
        // IMMEDIATE takes the write lock.
        in_one_transaction(pool, Sqlite::BEGIN, None, migrator).await
    }

    async fn admit(
        conn: &mut SqliteConnection,
        resource: &Resource,
        token: Token,
    ) -> sqlx::Result<AdmitAnswer> {
        let raise = sqlx::query(RAISE).bind(resource.as_str()).bind(i64::from(token));
        match raise.execute(&mut *conn).await?.rows_affected() {
            1 => Ok(AdmitAnswer::Admitted),
            _ => Sqlite::mark(conn, resource).await.map(AdmitAnswer::Refused),
        }
    }

    async fn lower(
        conn: &mut SqliteConnection,
        resource: &Resource,
        from: Token,
        to: Token,
    ) -> sqlx::Result<()> {
        let lower = sqlx::query(LOWER).bind(resource.as_str());
        let lower = lower.bind(i64::from(from)).bind(i64::from(to));
        lower.execute(conn).await.map(drop)
    }

    async fn prunable(
        conn: &mut SqliteConnection,
        seconds: i64,
        highest: Token,
    ) -> sqlx::Result<Prunable> {
        let look = AssertSqlSafe(format!(
            "WITH old AS (SELECT resource, token FROM main.fencing_marks AS mark
                WHERE {PRUNABLE} AND token BETWEEN 1 AND ?2)
            SELECT (SELECT count(*) FROM old), (SELECT token FROM main.fencing_floor),
                hex(resource), token
            FROM (SELECT 1) LEFT JOIN old ON true ORDER BY token DESC LIMIT 1"
        ));
        let look = sqlx::query_as(look).bind(seconds).bind(i64::from(highest));
        let row = look.fetch_one(conn).await?;
        let (marks, floor, name, token): (i64, Option<i64>, Option<String>, Option<i64>) = row;
        let floor = floor.ok_or(sqlx::Error::RowNotFound)?;
        Ok(Prunable { marks, floor, highest: name.zip(token) })
    }

    async fn raise_floor(conn: &mut SqliteConnection, to: Token, _: bool) -> sqlx::Result<()> {
        for statement in [MARK_LEASES, RAISE_FLOOR] {
            sqlx::query(statement).bind(i64::from(to)).execute(&mut *conn).await?;
        }
        Ok(())
    }

    async fn prune(
        conn: &mut SqliteConnection,
        seconds: i64,
        after: String,
        limit: u32,
    ) -> sqlx::Result<(i64, Option<String>)> {
        let prune = AssertSqlSafe(format!(
            "DELETE FROM main.fencing_marks WHERE resource IN (
                SELECT resource FROM main.fencing_marks AS mark
                WHERE {PRUNABLE} AND resource > CAST(x'{after}' AS TEXT)
                    AND token BETWEEN 1 AND (SELECT token FROM main.fencing_floor)
                ORDER BY resource LIMIT {limit})
            RETURNING hex(resource)"
        ));
        let prune = sqlx::query_scalar::<_, String>(prune).bind(seconds).persistent(false);
        let names = prune.fetch_all(conn).await?;
        Ok((names.len() as i64, names.into_iter().max()))
    }

    async fn list(conn: &mut SqliteConnection, after: &[u8], limit: u32) -> sqlx::Result<Vec<Row>> {
        let list = sqlx::query_as(LIST).bind(after).bind(i64::from(limit));
        list.fetch_all(conn).await
    }

    async fn mark(
        conn: &mut SqliteConnection,
        resource: &Resource,
    ) -> sqlx::Result<Option<Option<i64>>> {
        sqlx::query_scalar(HIGHEST).bind(resource.as_str()).fetch_optional(conn).await
    }
}
