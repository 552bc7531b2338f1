use sqlx::Postgres;

use crate::database::schema::migrations;
use crate::database::{Migrations, Schema};

impl Schema for Postgres {
    const MIGRATIONS: Migrations = migrations!("postgres");

    const REMOVAL: &'static str = include_str!("../../../migrations/postgres/remove.sql");

    const HOME: &'static str = "SELECT quote_ident(current_schema()) || '.'";

    /// Each statement must see what the migration before it, by another process, has done: an older snapshot would apply
    /// it twice. It waits a second at most for others: all that come later wait behind it.
    const BEGIN_MIGRATION: &'static str =
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = 1000";

    /// Ends with the transaction. The migrator's own lock belongs to the session, and stays behind in the pool when a
    /// migration fails or is dropped. "fencing" in ASCII: no other program's advisory lock.
    const MIGRATION_LOCK: Option<&'static str> = Some("SELECT pg_advisory_xact_lock(28821972413148775)");

    /// In the schema of the marks, and a trigger only if it is on the marks or the floor, fires, and calls the guard. A
    /// routine keeps its search_path when its schema is renamed.
    const OBJECTS: &'static str = "
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

    const UNFIT: Option<&'static str> = Some(
        "SELECT format('%s is not logged, and a crash empties it: ALTER TABLE %s SET LOGGED',
            relname, oid::regclass)
        FROM pg_class WHERE relname IN ('fencing_marks', 'fencing_floor', 'fencing_leases') AND relpersistence = 'u'
            AND relnamespace IN (SELECT oid FROM pg_namespace
                WHERE nspname = {schema} OR {schema} IS NULL AND nspname = ANY (current_schemas(false)))
        UNION ALL SELECT format('%s has no primary key, which the fence and the leases need: stop all clients, and \
            restore the key', relname)
        FROM pg_class WHERE relname IN ('fencing_marks', 'fencing_floor', 'fencing_leases') AND relkind = 'r'
            AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary AND indisvalid)
            AND relnamespace = (
                SELECT oid FROM pg_namespace WHERE nspname = COALESCE({schema}, current_schema()::text))",
    );
}
