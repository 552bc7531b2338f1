use fencing_protocol::{Resource, Token};
use sqlx::error::BoxDynError;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::PgArguments;
use sqlx::{Arguments as _, AssertSqlSafe, PgConnection, Pool, Postgres, Row as _};

use crate::database::opening::in_one_transaction;
use crate::database::plain::{migrations, plain_statements};
use crate::database::quoted::fill;
use crate::database::{Dialect, FenceStatements, Migrations};

/// Presents to the triggers of protected tables until the transaction ends: the text of a
/// [`Sequencer`](crate::sequencer::Sequencer), which counts for rows of its resource, or a
/// token in digits, which counts for all.
pub const PRESENT: &str = "SELECT set_config('fencing.sequencer',
    '@' || extract(epoch FROM transaction_timestamp()) || ' ' || $1, true)";

/// Reads the mark, without a lock: the resource as text. No row means no mark.
pub const HIGHEST: &str = "SELECT token FROM fencing_highest($1)";

/// Each statement must see what the migration before it, by another process, has done: an older snapshot would apply it
/// twice. It waits a second at most for others: all that come later wait behind it.
const BEGIN_MIGRATION: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = 1000";

/// Ends with the transaction. The migrator's own lock belongs to the session, and stays behind in the pool when a
/// migration fails or is dropped. "fencing" in ASCII: no other program's advisory lock.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(28821972413148775)";

/// In the schema of the marks, and a trigger only if it is on the marks or the floor, fires, and calls the guard. A
/// routine keeps its search_path when its schema is renamed.
const OBJECTS: &str = "
    WITH home AS (
        SELECT oid AS id, nspname FROM pg_namespace
        WHERE nspname = COALESCE({schema}, current_schema()::text)
    )
    SELECT 'routine ' || proname, '$fencing$' || prosrc, (
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

const UNFIT: &str = "
    SELECT format('%s is not logged, and a crash empties it: ALTER TABLE %s SET LOGGED',
        relname, oid::regclass)
    FROM pg_class WHERE relname IN ('fencing_marks', 'fencing_floor', 'fencing_leases') AND relpersistence = 'u'
        AND relnamespace IN (SELECT oid FROM pg_namespace
            WHERE nspname = {schema} OR {schema} IS NULL AND nspname = ANY (current_schemas(false)))";

impl FenceStatements for Postgres {
    const DIALECT: Dialect = Dialect::Postgres;

    const BEGIN: &'static str = "BEGIN";

    const BEGIN_BOUNDED: &'static str = "BEGIN; SET LOCAL lock_timeout = 1000";

    const BEGIN_RAISING: &'static str = "BEGIN ISOLATION LEVEL READ COMMITTED";

    /// COMMIT answers with success after a statement has failed, but rolls back. A SAVEPOINT fails then.
    const WATCH: (Option<&'static str>, Option<&'static str>) = (None, Some("SAVEPOINT fencing"));

    const HOME: &'static str = "SELECT quote_ident(current_schema()) || '.'";

    const OBJECTS: &'static str = OBJECTS;

    const UNFIT: Option<&'static str> = Some(UNFIT);

    const REMOVAL: &'static str = include_str!("../../../migrations/postgres/remove.sql");

    const MIGRATIONS: Migrations = migrations!("postgres");

    /// The text is an implicit transaction. A refusal ends it; otherwise BEGIN turns it into an explicit one.
    const BEGIN_ADMITTED: &'static str = "CALL fencing_begin({resource}, {token}); BEGIN";

    /// As `fencing_admit`, but it refuses without an error, which would end the transaction.
    const ADMIT: &'static str = "SELECT fencing_compare({resource}, {token})";

    const ADMIT_FIRST: Option<&'static str> = None;

    const ADMIT_IN_SHADOW: &'static str = "
        SELECT FROM set_config('fencing.patience', current_setting('lock_timeout'), true);
        SET LOCAL lock_timeout = 10;
        SELECT fencing_compare({resource}, {token});
        SELECT FROM set_config('lock_timeout', current_setting('fencing.patience'), true)";

    const HIGHEST: &'static str = HIGHEST;

    /// A replica raises no marks, and is behind the server that does.
    const NEWEST: Option<&'static str> =
        Some("SELECT token FROM fencing_highest($1) WHERE NOT pg_is_in_recovery()");

    const LIST: &'static str = "
        SELECT encode(convert_to(resource, 'UTF8'), 'hex'), token FROM fencing_list({after}, {limit})";

    const LOWER: &'static str =
        "SET LOCAL lock_timeout = 10000; SELECT fencing_lower({resource}, {from}, {to})";

    const PRUNABLE: &'static str = "
        SELECT marks, floor, encode(convert_to(resource, 'UTF8'), 'hex'), token
        FROM fencing_prunable({seconds}, {highest})";

    const RAISE_FLOOR: &'static str = "
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 1000;
        SELECT fencing_raise_floor({to})";

    const PRUNE: &'static str = "
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 1000;
        SELECT pruned, encode(convert_to(last, 'UTF8'), 'hex') FROM fencing_prune({seconds}, {after}, {limit})";

    const PARAMETER: &'static str = "$1";

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

    plain_statements!();

    async fn migrate(pool: &Pool<Postgres>, migrator: Migrator) -> Result<bool, MigrateError> {
        in_one_transaction(pool, BEGIN_MIGRATION, Some(MIGRATION_LOCK), migrator).await
    }

    async fn admit(
        conn: &mut PgConnection,
        admit: &'static str,
        resource: &Resource,
        token: Token,
    ) -> sqlx::Result<Option<i64>> {
        let name = Dialect::Postgres.literal(resource.as_str());
        let admit = fill(admit, &[("{resource}", &name), ("{token}", &token)]);
        let rows = sqlx::raw_sql(AssertSqlSafe(admit)).fetch_all(conn).await?;
        let answer = rows.iter().find(|row| !row.is_empty()).ok_or(sqlx::Error::RowNotFound)?;
        answer.try_get(0)
    }

    fn present(presented: &str) -> Option<String> {
        Some(PRESENT.replace("$1", &Dialect::Postgres.literal(presented)))
    }
}
