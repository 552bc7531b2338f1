use fencing_protocol::{Resource, Token};
use sqlx::error::BoxDynError;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::PgArguments;
use sqlx::{Arguments as _, AssertSqlSafe, PgConnection, Pool, Postgres, Row as _};

use crate::database::opening::in_one_transaction;
use crate::database::quoted::unhex;
use crate::database::texts::texts;
use crate::database::{
    AdmitAnswer, BeginAdmitted, FenceStatements, Migrations, Prunable, Row, Texts, literal,
};

/// Presents to the triggers of protected tables until the transaction ends: the text of a
/// [`Sequencer`](crate::sequencer::Sequencer), which counts for rows of its resource, or a
/// token in digits, which counts for all.
pub const PRESENT: &str = "SELECT set_config('fencing.sequencer',
    '@' || extract(epoch FROM transaction_timestamp()) || ' ' || $1, true)";

/// Reads the mark, without a lock: the resource as text. No row means no mark.
pub const HIGHEST: &str = "SELECT token FROM fencing_highest($1)";

/// Each statement must see what the migration before it, by another process, has done: an
/// older snapshot would apply it twice. It waits a second at most for others: all that come later wait
/// behind it.
const BEGIN_MIGRATION: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = 1000";

/// Before another statement in one text, which is one transaction. Above READ COMMITTED it could not leave
/// out a mark that has moved.
const IMPATIENT: &str =
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 1000";

/// The same where nobody waits behind it.
const PATIENT: &str = "SET LOCAL lock_timeout = 10000";

/// Ends with the transaction. The migrator's own lock belongs to the session, and stays
/// behind in the pool when a migration fails or is dropped. "fencing" in ASCII: no other
/// program's advisory lock.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(28821972413148775)";

/// In the schema of the marks, and a trigger only if it is on the marks or the floor, fires, and calls the guard. A
/// routine keeps its search_path when its schema is renamed.
const PARTS: &str = "
    WITH home AS (
        SELECT oid AS id, nspname FROM pg_namespace
        WHERE nspname = COALESCE($1::text, current_schema()::text)
    )
    SELECT 'routine ' || proname, prosrc, (
        SELECT format('it looks for the marks in the schema %s', path)
        FROM unnest(proconfig) AS config, split_part(substr(config, 13), ',', 1) AS path
        WHERE starts_with(config, 'search_path=') AND path <> quote_ident(nspname))
    FROM pg_proc, home WHERE starts_with(proname, 'fencing_') AND pronamespace = id
    UNION ALL SELECT 'trigger ' || tgname, NULL, NULL
    FROM home JOIN pg_class ON relnamespace = id AND relname IN ('fencing_marks', 'fencing_floor')
        JOIN pg_trigger ON tgrelid = pg_class.oid
        JOIN pg_proc ON pg_proc.oid = tgfoid AND pronamespace = id
            AND proname IN ('fencing_guard', 'fencing_above')
    WHERE tgenabled IN ('O', 'A')";

/// Reads the name of the table of marks with its schema: a temporary table would come before it.
const HOME: &str = "
    SELECT format('%I.fencing_marks', nspname)
    FROM unnest(current_schemas(false)) WITH ORDINALITY AS path (name, nr)
        JOIN pg_namespace ON nspname = path.name JOIN pg_class ON relnamespace = pg_namespace.oid
    WHERE relname = 'fencing_marks' ORDER BY nr LIMIT 1";

const UNFIT: &str = "
    SELECT format('%s is not logged, and a crash empties it: ALTER TABLE %s SET LOGGED',
        relname, oid::regclass)
    FROM pg_class WHERE relname IN ('fencing_marks', 'fencing_floor', 'fencing_leases') AND relpersistence = 'u'
        AND relnamespace IN (SELECT oid FROM pg_namespace
            WHERE nspname = $1 OR $1 IS NULL AND nspname = ANY (current_schemas(false)))";

impl FenceStatements for Postgres {
    const BEGIN: &'static str = "BEGIN";

    const BEGIN_BOUNDED: &'static str = "BEGIN; SET LOCAL lock_timeout = 1000";

    /// COMMIT answers with success after a statement has failed, but rolls back. A SAVEPOINT fails then.
    const WATCH: (Option<&'static str>, Option<&'static str>) = (None, Some("SAVEPOINT fencing"));

    const PARTS: &'static str = PARTS;

    const UNFIT: Option<&'static str> = Some(UNFIT);

    const REMOVAL: &'static str = include_str!("../../../migrations/postgres/remove.sql");

    const MIGRATIONS: Migrations = &[
        (1, "fencing marks", include_str!("../../../migrations/postgres/0001_fencing_marks.sql")),
        (2, "fencing admit", include_str!("../../../migrations/postgres/0002_fencing_admit.sql")),
        (3, "fencing leases", include_str!("../../../migrations/postgres/0003_fencing_leases.sql")),
        (4, "fencing lower", include_str!("../../../migrations/postgres/0004_fencing_lower.sql")),
        (5, "fencing shadow", include_str!("../../../migrations/postgres/0005_fencing_shadow.sql")),
        (6, "fencing prune", include_str!("../../../migrations/postgres/0006_fencing_prune.sql")),
    ];

    fn begin_admitted(resource: &Resource, token: Token) -> Option<BeginAdmitted> {
        // The text is an implicit transaction. A refusal ends it; otherwise BEGIN turns it
        // into an explicit one.
        let name = literal(resource.as_str());
        let begin = format!("CALL fencing_begin({name}, {token}); BEGIN");
        Some(BeginAdmitted { begin, admit: None })
    }

    fn begin_raising(resource: &Resource, token: Token) -> Option<BeginAdmitted> {
        let begin = "BEGIN ISOLATION LEVEL READ COMMITTED".to_owned();
        let name = literal(resource.as_str());
        Some(BeginAdmitted { begin, admit: Some(format!("SELECT fencing_admit({name}, {token})")) })
    }

    const PARAMETER: char = '$';

    fn held(
        values: &mut PgArguments,
        resource: &Resource,
        token: Token,
    ) -> Result<Option<String>, BoxDynError> {
        values.add(resource.as_str())?;
        values.add(i64::from(token))?;
        let (name, number) = (values.len() - 1, values.len());
        // As `fencing_begin` does. A session with a temporary table may have one with this name.
        Ok(Some(format!(
            "EXISTS (SELECT FROM fencing_marks WHERE resource = ${name}
                AND CASE WHEN token = ${number} AND pg_my_temp_schema() = 0
                    THEN pg_advisory_xact_lock_shared(
                        hashtextextended(resource, 28548280319532647)) IS NOT NULL END
                FOR SHARE)"
        )))
    }

    async fn run(conn: &mut PgConnection, sql: String, values: PgArguments) -> sqlx::Result<u64> {
        let run = sqlx::query_with(sqlx::AssertSqlSafe(sql), values);
        Ok(run.execute(conn).await?.rows_affected())
    }

    async fn execute(conn: &mut PgConnection, sql: String) -> sqlx::Result<()> {
        let sql = sqlx::AssertSqlSafe(sql);
        sqlx::raw_sql(sql).execute(conn).await.map(drop)
    }

    async fn present(
        conn: &mut PgConnection,
        token: Token,
        resource: Option<&Resource>,
    ) -> sqlx::Result<()> {
        let presented = match resource {
            Some(resource) => format!("{token} {resource}"),
            None => token.to_string(),
        };
        Self::execute(conn, PRESENT.replace("$1", &literal(&presented))).await
    }

    async fn texts(
        conn: &mut PgConnection,
        sql: String,
        values: Vec<Option<String>>,
    ) -> sqlx::Result<Vec<Texts>> {
        texts::<Self>(conn, sql, values).await
    }

    async fn migrate(pool: &Pool<Postgres>, migrator: Migrator) -> Result<bool, MigrateError> {
        in_one_transaction(pool, BEGIN_MIGRATION, Some(MIGRATION_LOCK), migrator).await
    }

    async fn admit(
        conn: &mut PgConnection,
        resource: &Resource,
        token: Token,
    ) -> sqlx::Result<AdmitAnswer> {
        // As `fencing_admit`, and it refuses without an error, which would end the transaction.
        let name = literal(resource.as_str());
        let admit = AssertSqlSafe(format!("SELECT fencing_compare({name}, {token})"));
        let mark = sqlx::raw_sql(admit).fetch_one(conn).await?.try_get::<Option<i64>, _>(0)?;
        Ok(mark.map_or(AdmitAnswer::Admitted, |mark| AdmitAnswer::Refused(Some(Some(mark)))))
    }

    async fn lower(
        conn: &mut PgConnection,
        resource: &Resource,
        from: Token,
        to: Token,
    ) -> sqlx::Result<()> {
        let name = literal(resource.as_str());
        let lower = format!("{PATIENT}; SELECT fencing_lower({name}, {from}, {to})");
        Self::execute(conn, lower).await
    }

    async fn prunable(
        conn: &mut PgConnection,
        seconds: i64,
        highest: Token,
    ) -> sqlx::Result<Prunable> {
        let look = AssertSqlSafe(format!(
            "SELECT marks, floor, encode(convert_to(resource, 'UTF8'), 'hex'), token
            FROM fencing_prunable({seconds}, {highest})"
        ));
        let row = sqlx::raw_sql(look).fetch_one(conn).await?;
        Ok(Prunable {
            marks: row.try_get(0)?,
            floor: row.try_get(1)?,
            highest: row.try_get::<Option<_>, _>(2)?.zip(row.try_get(3)?),
        })
    }

    async fn raise_floor(conn: &mut PgConnection, to: Token, _: bool) -> sqlx::Result<()> {
        let raise = format!("{IMPATIENT}; SELECT fencing_raise_floor({to})");
        Self::execute(conn, raise).await
    }

    async fn prune(
        conn: &mut PgConnection,
        seconds: i64,
        after: String,
        limit: u32,
    ) -> sqlx::Result<(i64, Option<String>)> {
        let prune = AssertSqlSafe(format!(
            "{IMPATIENT}; SELECT pruned, encode(convert_to(last, 'UTF8'), 'hex')
            FROM fencing_prune({seconds}, convert_from(decode('{after}', 'hex'), 'UTF8'), {limit})"
        ));
        let rows = sqlx::raw_sql(prune).fetch_all(conn).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }

    async fn list(conn: &mut PgConnection, after: &[u8], limit: u32) -> sqlx::Result<Vec<Row>> {
        let home = sqlx::raw_sql(HOME).fetch_optional(&mut *conn).await?;
        let home = home.map(|row| row.try_get(0)).transpose()?;
        let table = home.unwrap_or_else(|| "fencing_marks".to_owned());
        let after = literal(after);
        let list = AssertSqlSafe(format!(
            "SELECT encode(convert_to(resource, 'UTF8'), 'hex'), token FROM {table}
                WHERE resource > {after} ORDER BY resource LIMIT {limit}"
        ));
        let rows = sqlx::raw_sql(list).fetch_all(conn).await?;
        rows.iter()
            .map(|row| Ok((unhex(row.try_get(0)?).unwrap_or_default(), row.try_get(1)?)))
            .collect()
    }

    async fn mark(
        conn: &mut PgConnection,
        resource: &Resource,
    ) -> sqlx::Result<Option<Option<i64>>> {
        highest(conn, resource, "").await
    }

    async fn newest_mark(
        conn: &mut PgConnection,
        resource: &Resource,
    ) -> sqlx::Result<Option<Option<i64>>> {
        // A replica does not raise marks, and is behind the server that does.
        highest(conn, resource, "WHERE NOT pg_is_in_recovery()").await
    }
}

async fn highest(
    conn: &mut PgConnection,
    resource: &Resource,
    condition: &str,
) -> sqlx::Result<Option<Option<i64>>> {
    let name = literal(resource.as_str());
    let select = AssertSqlSafe(format!("SELECT token FROM fencing_highest({name}) {condition}"));
    let row = sqlx::raw_sql(select).fetch_optional(conn).await?;
    row.map(|row| row.try_get(0)).transpose()
}
