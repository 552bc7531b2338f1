//! PostgreSQL. Statements of this crate have their values in their text. The driver would send a statement with bound
//! values in two messages, under a name. A pooler in transaction mode (pgbouncer) may give each message to another
//! session, where that name is another client's statement. Several statements in one text are one transaction.

mod fence;
mod lease;
mod protect;

use sqlx::Postgres;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgDatabaseError};

pub use self::fence::PRESENT;
use super::dialect::{plain_statements, server};
use super::schema::migrations;
use super::{Dialect, Meaning, Migrations, Schema};

impl Dialect for Postgres {
    const PARAMETER: &'static str = "$1";

    fn name(options: &PgConnectOptions) -> String {
        let place = server(options.get_socket(), options.get_host(), options.get_port());
        let database = options.get_database().unwrap_or(options.get_username());
        format!("postgres://{place}/{database}")
    }

    fn literal(text: impl AsRef<[u8]>) -> String {
        format!("convert_from(decode('{}', 'hex'), 'UTF8')", hex::encode(text))
    }

    plain_statements!();
}

pub fn meaning(error: &dyn DatabaseError) -> Option<Meaning> {
    Some(meaning_of(error.try_downcast_ref::<PgDatabaseError>()?.code()))
}

pub fn meaning_of(state: &str) -> Meaning {
    match state {
        // serialization_failure, deadlock_detected, lock_not_available
        "40001" | "40P01" | "55P03" => Meaning::Conflict,
        // in_failed_sql_transaction
        "25P02" => Meaning::Aborted,
        // undefined_table, undefined_function
        "42P01" | "42883" => Meaning::NotMigrated,
        // insufficient_privilege; invalid_authorization, invalid_password
        "42501" | "28000" | "28P01" => Meaning::Denied,
        // admin_shutdown, crash_shutdown, database_dropped, idle_session_timeout,
        // idle_in_transaction_session_timeout, transaction_timeout
        "57P01" | "57P02" | "57P04" | "57P05" | "25P03" | "25P04" => Meaning::Closing,
        // cannot_connect_now
        "57P03" => Meaning::Starting,
        // too_many_connections; class 08, connection exceptions
        "53300" => Meaning::Unreached,
        state if state.len() == 5 && state.starts_with("08") => Meaning::Unreached,
        // read_only_sql_transaction, as on a standby; disk_full, out_of_memory; query_canceled
        "25006" | "53100" | "53200" | "57014" => Meaning::NotNow,
        _ => Meaning::Other,
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Appendix A of the documentation: each of them is FATAL.
    #[test]
    fn a_session_that_ended_is_told_from_a_statement_that_failed() {
        for state in ["57P01", "57P02", "57P04", "57P05", "25P03", "25P04"] {
            assert_eq!(meaning_of(state), Meaning::Closing, "{state}");
        }
        for state in ["25P02", "57014", "57P03", "40001"] {
            assert_ne!(meaning_of(state), Meaning::Closing, "{state}");
        }
    }
}
