//! MySQL and MariaDB.

mod fence;
mod lease;
mod protect;

use sqlx::error::DatabaseError;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError};
use sqlx::{MySql, MySqlConnection, Pool};

pub use self::fence::{PRESENT, PRESENT_TOKEN};
use super::dialect::{plain_statements, server};
use super::schema::migrations;
use super::{Dialect, Meaning, Migrations, Schema, procedure_connection};

impl Dialect for MySql {
    const QUOTE: char = '`';

    const PARAMETER: &'static str = "?";

    const KEEPS_SESSION_STATE: bool = true;

    fn name(options: &MySqlConnectOptions) -> String {
        let place = server(options.get_socket(), options.get_host(), options.get_port());
        format!("mysql://{place}/{}", options.get_database().unwrap_or_default())
    }

    fn literal(text: impl AsRef<[u8]>) -> String {
        format!("x'{}'", hex::encode(text))
    }

    /// It is compared there as a text.
    fn catalogue(name: Option<&str>) -> String {
        name.map_or("NULL".into(), |name| format!("_utf8mb4 {}", MySql::literal(name)))
    }

    plain_statements!();
}

pub fn meaning(error: &dyn DatabaseError) -> Option<Meaning> {
    Some(meaning_of(error.try_downcast_ref::<MySqlDatabaseError>()?.number()))
}

pub fn meaning_of(number: u16) -> Meaning {
    match number {
        // Lock wait timeout, deadlock, MariaDB's newer snapshot isolation ("record has
        // changed"), a table altered since the snapshot, NOWAIT, a cluster's conflict.
        1205 | 1213 | 1020 | 1412 | 3572 | 3101 => Meaning::Conflict,
        // No such table, no such procedure, a view without its table.
        1146 | 1305 | 1356 => Meaning::NotMigrated,
        // Denied: the database, this user, a table or column, a missing privilege, a procedure, a missing password.
        1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 1698 => Meaning::Denied,
        // Shutdown, session killed (MariaDB, MySQL), idle for too long.
        1053 | 1927 | 3169 | 4031 => Meaning::Closing,
        // Too many connections, and of this user; those that clients give by themselves.
        1040 | 1203 | 2002 | 2003 | 2006 | 2013 => Meaning::Unreached,
        // The disk is full, read-only (three), the statement was killed, or took too long (MySQL, MariaDB), a node of a
        // cluster is not ready, too many connections of this user.
        1021 | 1290 | 1792 | 1836 | 1317 | 3024 | 1969 | 1047 | 1226 => Meaning::NotNow,
        _ => Meaning::Other,
    }
}

/// By default a wait for a table's lock may last a day, and all later sessions wait behind it. A procedure or
/// trigger is read, and works, in the SQL mode of the session that creates it: sql_mode=ORACLE has another syntax.
const SESSION_FOR_DDL: &str = "SET SESSION lock_wait_timeout = 1,
    sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'";

/// The name has no more than the 64 characters that MySQL takes.
const LOCK: &str = "SELECT GET_LOCK(CONCAT('fencing:', SHA1(DATABASE())), 1)";
const UNLOCK: &str = "SELECT RELEASE_LOCK(CONCAT('fencing:', SHA1(DATABASE())))";

/// A server has those of its kind only.
const CLUSTER: &str = "
    SHOW GLOBAL VARIABLES
    WHERE Variable_name IN ('wsrep_on', 'group_replication_single_primary_mode')";

/// NULL, or no row, if the user may not see it.
const COUNTS: &str = "
    SELECT routine_definition LIKE '%wsrep_on%' FROM information_schema.routines
    WHERE routine_schema = DATABASE() AND routine_name = 'fencing_count'";

/// Removes the remains of a process that died while it migrated: each statement that creates a
/// table commits implicitly. The migrations can be applied twice.
const TIDY: &str = "DELETE FROM _fencing_migrations WHERE success = FALSE";

impl Schema for MySql {
    const MIGRATIONS: Migrations = migrations!("mysql");

    const REMOVAL: &'static str = include_str!("../../../migrations/mysql/remove.sql");

    const SESSION_FOR_DDL: Option<&'static str> = Some(SESSION_FOR_DDL);

    const HOME: &'static str = "SELECT ''";

    /// A user sees the routines and triggers to which it has a right. With none at all for the schema, what it does not
    /// see may be there; but a user of the fence sees some routine. MySQL 8 may keep another text than it was given.
    const OBJECTS: &'static str = "
        WITH own AS (
            SELECT privilege_type AS held FROM information_schema.user_privileges
            WHERE grantee = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')
            UNION ALL SELECT privilege_type FROM information_schema.schema_privileges
            WHERE grantee = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')
                AND COALESCE({schema}, DATABASE()) LIKE table_schema
        ), routines AS (
            SELECT CAST(routine_name AS CHAR) AS name,
                IF(VERSION() LIKE '%MariaDB%',
                    CONCAT('SQL SECURITY INVOKER ', CAST(routine_definition AS CHAR)), NULL) AS text
            FROM information_schema.routines
            WHERE routine_schema = COALESCE({schema}, DATABASE()) AND routine_name LIKE 'fencing%'
        )
        SELECT CONCAT('routine ', name), text, NULL FROM routines
        UNION ALL SELECT CONCAT('trigger ', CAST(trigger_name AS CHAR)), NULL, NULL
            FROM information_schema.triggers WHERE trigger_schema = COALESCE({schema}, DATABASE())
        UNION ALL SELECT 'routine *', NULL, NULL FROM DUAL
            WHERE EXISTS (SELECT 1 FROM routines)
            AND NOT EXISTS (SELECT 1 FROM own WHERE held IN ('EXECUTE', 'ALTER ROUTINE'))
        UNION ALL SELECT 'trigger *', NULL, NULL FROM DUAL
            WHERE NOT EXISTS (SELECT 1 FROM own WHERE held = 'TRIGGER')";

    const UNFIT: Option<&'static str> = Some(
        "SELECT CONCAT(CAST(table_name AS CHAR), ' has the engine ', CAST(engine AS CHAR),
            ', which has no transactions: ALTER TABLE ', CAST(table_name AS CHAR), ' ENGINE = InnoDB')
        FROM information_schema.tables JOIN information_schema.engines USING (engine)
        WHERE table_schema = COALESCE({schema}, DATABASE()) AND transactions <> 'YES'
            AND table_name IN ('fencing_marks', 'fencing_floor', 'fencing_leases', 'fencing_audit')
        UNION ALL SELECT CONCAT(CAST(table_name AS CHAR), ' has no primary key, which the fence and the leases \
            need: stop all clients, and restore the key')
        FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
        WHERE table_schema = COALESCE({schema}, DATABASE()) AND table_type = 'BASE TABLE'
            AND table_name IN ('fencing_marks', 'fencing_floor', 'fencing_leases')
            AND column_name IN ('resource', 'one')
        GROUP BY table_name HAVING MAX(column_key = 'PRI') = 0",
    );

    async fn migrate(pool: &Pool<MySql>, migrator: Migrator) -> Result<bool, MigrateError> {
        // The lock belongs to the session: wherever this ends, so does the session.
        let mut conn = procedure_connection(pool).await?;
        if Self::first(&mut conn, LOCK.into()).await?.as_deref() != Some("1") {
            return Ok(false);
        }
        sqlx::raw_sql(SESSION_FOR_DDL).execute(&mut *conn).await?;
        // Before the first migration the table is not there.
        let _ = sqlx::query(TIDY).execute(&mut *conn).await;
        migrator.run_direct(None, &mut *conn, false).await?;
        sqlx::query(UNLOCK).execute(&mut *conn).await?;
        Ok(true)
    }

    async fn unguarded(conn: &mut MySqlConnection) -> sqlx::Result<Option<&'static str>> {
        let variables = sqlx::query_as(CLUSTER).fetch_all(&mut *conn).await?;
        let counts = sqlx::query_scalar::<_, Option<bool>>(COUNTS).fetch_optional(conn).await?;
        Ok(unguarded(&variables, counts.flatten() != Some(false)))
    }
}

/// Judges a server by these variables, and by whether `fencing_count` counts where Galera is on.
fn unguarded(variables: &[(String, String)], counts: bool) -> Option<&'static str> {
    let is = |name: &str, value: &str| variables.iter().any(|(own, is)| own == name && is.eq_ignore_ascii_case(value));
    if is("group_replication_single_primary_mode", "OFF") {
        return Some(
            "several servers of its group take writes: let only one take them \
             (group_replication_single_primary_mode = ON)",
        );
    }
    (is("wsrep_on", "ON") && !counts).then_some(
        "its Galera cluster needs the procedure fencing_count of MariaDB 10.6.2 or newer: empty \
         the table _fencing_migrations, and migrate again there",
    )
}

#[cfg(test)]
mod tests {
    use super::unguarded;

    #[test]
    fn a_group_with_several_writers_is_refused() {
        let variable = |name: &str, value: &str| [(name.to_owned(), value.to_owned())];
        assert!(unguarded(&[], false).is_none());
        let mode = "group_replication_single_primary_mode";
        assert!(unguarded(&variable(mode, "ON"), true).is_none());
        assert!(unguarded(&variable(mode, "OFF"), true).is_some());
        assert!(unguarded(&variable("wsrep_on", "OFF"), false).is_none());
        assert!(unguarded(&variable("wsrep_on", "ON"), true).is_none());
        assert!(unguarded(&variable("wsrep_on", "ON"), false).is_some());
    }
}
