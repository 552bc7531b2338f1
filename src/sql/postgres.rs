use futures_util::future::BoxFuture;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{PgConnection, Pool, Postgres};

use super::migrate::in_one_transaction;
use super::protect::quoted::hex;
use super::statement::postgres::{HIGHEST, PRESENT};
use super::texts::texts;
use crate::database::{AdmitAnswer, BeginAdmitted, FenceStatements, Migrations, Row, Texts};
use crate::resource::Resource;
use crate::token::Token;

/// Compares and raises as `fencing_admit` does, and refuses without an error, which would end
/// the transaction. What it does and why stands in the migration.
const ADMIT: &str = "SELECT fencing_compare($1, $2)";

const LOWER: &str = "SELECT fencing_lower($1, $2)";

const LIST: &str = "
    SELECT convert_to(resource, 'UTF8'), token FROM fencing_marks
    WHERE resource > convert_from($1, 'UTF8') ORDER BY resource LIMIT $2";

/// Each statement must see what the migration before it, by another process, has done: an
/// older snapshot would apply it twice. It waits a second at most for others: who comes later waits
/// behind it.
const BEGIN_MIGRATION: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = 1000";

/// Ends with the transaction. The migrator's own lock belongs to the session, and stays
/// behind in the pool when a migration fails or is dropped. "fencing" in ASCII: no other
/// program's advisory lock.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(28821972413148775)";

const PARTS: &str = "
    SELECT 'ROUTINE ' || proname FROM pg_proc
    WHERE starts_with(proname, 'fencing_') AND pg_function_is_visible(oid)
    UNION ALL SELECT 'TRIGGER ' || tgname FROM pg_trigger WHERE starts_with(tgname, 'fencing_')";

impl FenceStatements for Postgres {
    const BEGIN: &'static str = "BEGIN";

    const BEGIN_TO_RAISE: &'static str = "BEGIN ISOLATION LEVEL READ COMMITTED";

    const BEGIN_BOUNDED: &'static str = "BEGIN; SET LOCAL lock_timeout = 1000";

    const PARTS: &'static str = PARTS;

    const MIGRATIONS: Migrations = &[
        (1, "fencing marks", include_str!("../../migrations/postgres/0001_fencing_marks.sql")),
        (2, "fencing admit", include_str!("../../migrations/postgres/0002_fencing_admit.sql")),
        (3, "fencing leases", include_str!("../../migrations/postgres/0003_fencing_leases.sql")),
        (4, "fencing lower", include_str!("../../migrations/postgres/0004_fencing_lower.sql")),
    ];

    fn begin_admitted(resource: &Resource, token: Token) -> Option<BeginAdmitted> {
        // The text is an implicit transaction. A refusal ends it; otherwise BEGIN turns it
        // into an explicit one.
        let name = hex(resource.as_str());
        let begin = format!(
            "CALL fencing_begin(convert_from(decode('{name}', 'hex'), 'UTF8'), {token}); BEGIN"
        );
        Some(BeginAdmitted { begin, admit: None })
    }

    fn execute<'a>(conn: &'a mut PgConnection, sql: String) -> BoxFuture<'a, sqlx::Result<()>> {
        let sql = sqlx::AssertSqlSafe(sql);
        Box::pin(async move { sqlx::raw_sql(sql).execute(conn).await.map(drop) })
    }

    fn present<'a>(
        conn: &'a mut PgConnection,
        token: Token,
        resource: Option<&'a Resource>,
    ) -> BoxFuture<'a, sqlx::Result<()>> {
        let presented = match resource {
            Some(resource) => format!("{token} {resource}"),
            None => token.to_string(),
        };
        Box::pin(async move { sqlx::query(PRESENT).bind(presented).execute(conn).await.map(drop) })
    }

    fn texts(
        conn: &mut PgConnection,
        sql: String,
        values: Vec<Option<String>>,
    ) -> BoxFuture<'_, sqlx::Result<Vec<Texts>>> {
        Box::pin(texts::<Self>(conn, sql, values))
    }

    fn migrate(
        pool: &Pool<Postgres>,
        migrator: Migrator,
    ) -> BoxFuture<'_, Result<bool, MigrateError>> {
        Box::pin(in_one_transaction(pool, BEGIN_MIGRATION, Some(MIGRATION_LOCK), migrator))
    }

    fn admit<'a>(
        conn: &'a mut PgConnection,
        resource: &'a Resource,
        token: Token,
    ) -> BoxFuture<'a, sqlx::Result<AdmitAnswer>> {
        Box::pin(async move {
            let admit = sqlx::query_scalar::<_, Option<i64>>(ADMIT).bind(resource.as_str());
            let mark = admit.bind(i64::from(token)).fetch_one(conn).await?;
            Ok(mark.map_or(AdmitAnswer::Admitted, |mark| AdmitAnswer::Refused(Some(Some(mark)))))
        })
    }

    fn lower<'a>(
        conn: &'a mut PgConnection,
        resource: &'a Resource,
        token: Token,
    ) -> BoxFuture<'a, sqlx::Result<()>> {
        let lower = sqlx::query(LOWER).bind(resource.as_str());
        Box::pin(async move { lower.bind(i64::from(token)).execute(conn).await.map(drop) })
    }

    fn list<'a>(
        conn: &'a mut PgConnection,
        after: &'a [u8],
        limit: u32,
    ) -> BoxFuture<'a, sqlx::Result<Vec<Row>>> {
        let list = sqlx::query_as(LIST).bind(after).bind(i64::from(limit));
        Box::pin(list.fetch_all(conn))
    }

    fn mark<'a>(
        conn: &'a mut PgConnection,
        resource: &'a Resource,
    ) -> BoxFuture<'a, sqlx::Result<Option<Option<i64>>>> {
        Box::pin(sqlx::query_scalar(HIGHEST).bind(resource.as_str()).fetch_optional(conn))
    }
}
