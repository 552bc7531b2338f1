use fencing_protocol::{Resource, Token};

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{MySql, MySqlConnection, Pool};

use crate::database::plain::{migrations, plain_statements};
use crate::database::quoted::fill;
use crate::database::{Dialect, FenceStatements, Migrations};

/// Presents to the triggers of protected tables, for the next statement that writes to one: the text of a
/// [`Sequencer`](crate::sequencer::Sequencer) as bytes. It counts for rows of its resource.
pub const PRESENT: &str = "SET @fencing_sequencer = ?, @fencing_token = NULL";

/// Presents a bare token in the same way: the token. It counts for rows of every resource.
pub const PRESENT_TOKEN: &str = "SET @fencing_token = ?, @fencing_sequencer = NULL";

/// Reads the mark, without a lock: the resource as bytes. No row means no mark.
pub const HIGHEST: &str = "SELECT token FROM fencing_marks_base WHERE resource = ?";

/// A wait for a table's lock may last a day, as a rule, and everybody who comes later waits behind it. A procedure or
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

/// A user sees the routines and triggers to which it has a right. With none at all for the schema, what it does not see
/// may be there; but a user of the fence sees some routine. MySQL 8 may keep another text than it was given.
const OBJECTS: &str = "
    WITH own AS (
        SELECT privilege_type AS held FROM information_schema.user_privileges WHERE grantee = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')
        UNION ALL SELECT privilege_type FROM information_schema.schema_privileges
        WHERE grantee = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''') AND COALESCE({schema}, DATABASE()) LIKE table_schema
    ), routines AS (
        SELECT CAST(routine_name AS CHAR) AS name,
            IF(VERSION() LIKE '%MariaDB%', CONCAT('SQL SECURITY INVOKER ', CAST(routine_definition AS CHAR)), NULL) AS text
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

const UNFIT: &str = "
    SELECT CONCAT(CAST(table_name AS CHAR), ' has the engine ', CAST(engine AS CHAR),
        ', which has no transactions: ALTER TABLE ', CAST(table_name AS CHAR), ' ENGINE = InnoDB')
    FROM information_schema.tables JOIN information_schema.engines USING (engine)
    WHERE table_schema = COALESCE({schema}, DATABASE()) AND transactions <> 'YES'
        AND table_name IN ('fencing_marks', 'fencing_floor', 'fencing_leases', 'fencing_audit')";

impl FenceStatements for MySql {
    const DIALECT: Dialect = Dialect::MySql;

    const QUOTE: char = '`';

    const BEGIN: &'static str = "START TRANSACTION";

    const SESSION_FOR_DDL: Option<&'static str> = Some(SESSION_FOR_DDL);

    /// A deadlock ends the transaction, and so does a statement that creates a table. The savepoint goes with it.
    const WATCH: (Option<&'static str>, Option<&'static str>) =
        (Some("SAVEPOINT fencing"), Some("RELEASE SAVEPOINT fencing"));

    const HOME: &'static str = "SELECT ''";

    const OBJECTS: &'static str = OBJECTS;

    const UNFIT: Option<&'static str> = Some(UNFIT);

    const REMOVAL: &'static str = include_str!("../../../migrations/mysql/remove.sql");

    const MIGRATIONS: Migrations = migrations!("mysql");

    const ADMIT: &'static str = "CALL fencing_admit({resource}, {token})";

    /// Not in one text with BEGIN: if the second statement were interrupted (`max_statement_time`, KILL QUERY), the
    /// driver would not know that a transaction is open.
    const ADMIT_FIRST: Option<&'static str> = Some("CALL fencing_share({resource}, {token})");

    /// MySQL knows no `SET STATEMENT`, and waits as for another admission.
    const ADMIT_BOUNDED: &'static str = "
        /*M!100303 SET STATEMENT innodb_lock_wait_timeout = 1 FOR */ CALL fencing_admit({resource}, {token})";

    const ADMIT_IN_SHADOW: &'static str = "
        /*M!100303 SET STATEMENT innodb_lock_wait_timeout = 0 FOR */ CALL fencing_admit({resource}, {token})";

    const HIGHEST: &'static str = HIGHEST;

    /// A plain read may be old: proxies send it to replicas, which look like the
    /// primary, and another node of a cluster may have raised the mark.
    const NEWEST: Option<&'static str> = None;

    const LIST: &'static str = "
        SELECT HEX(resource), token FROM fencing_marks_base WHERE resource > {after} ORDER BY resource LIMIT {limit}";

    const LOWER: &'static str = "CALL fencing_lower({resource}, {from}, {to})";

    const PRUNABLE: &'static str = "CALL fencing_prunable({seconds}, {highest})";

    const RAISE_FLOOR: &'static str = "
        SET SESSION innodb_lock_wait_timeout = 1, SESSION lock_wait_timeout = 1;
        CALL fencing_raise_floor({to}, {waits})";

    const PRUNE: &'static str = "CALL fencing_prune({seconds}, {after}, {limit})";

    const PARAMETER: &'static str = "?";

    plain_statements!();

    async fn migrate(pool: &Pool<MySql>, migrator: Migrator) -> Result<bool, MigrateError> {
        let mut conn = pool.acquire().await?;
        // The lock belongs to the session: wherever this ends, so does the session.
        conn.close_on_drop();
        let locked = sqlx::query_scalar::<_, Option<i64>>(LOCK).fetch_one(&mut *conn).await?;
        if locked != Some(1) {
            return Ok(false);
        }
        sqlx::raw_sql(SESSION_FOR_DDL).execute(&mut *conn).await?;
        // Before the first migration the table is not there.
        let _ = sqlx::query(TIDY).execute(&mut *conn).await;
        migrator.run_direct(None, &mut *conn, false).await?;
        sqlx::query(UNLOCK).execute(&mut *conn).await?;
        Ok(true)
    }

    async fn unguarded(pool: &Pool<MySql>) -> sqlx::Result<Option<&'static str>> {
        let variables = sqlx::query_as(CLUSTER).fetch_all(pool).await?;
        let counts = sqlx::query_scalar::<_, Option<bool>>(COUNTS).fetch_optional(pool).await?;
        Ok(unguarded(&variables, counts.flatten() != Some(false)))
    }

    async fn admit(
        conn: &mut MySqlConnection,
        admit: &'static str,
        resource: &Resource,
        token: Token,
    ) -> sqlx::Result<Option<i64>> {
        // As text: a preparation that is dropped would end the connection for its pool.
        let name = Dialect::MySql.literal(resource.as_str());
        let admit = fill(admit, &[("{resource}", &name), ("{token}", &token)]);
        Self::execute(conn, admit).await.map(|()| None)
    }

    fn present(presented: &str) -> Option<String> {
        Some(match presented.contains(' ') {
            true => PRESENT.replace('?', &Dialect::MySql.literal(presented)),
            false => PRESENT_TOKEN.replace('?', presented),
        })
    }
}

/// Judges a server by these variables, and by whether `fencing_count` counts where Galera is on.
fn unguarded(variables: &[(String, String)], counts: bool) -> Option<&'static str> {
    let is = |name: &str, value: &str| {
        variables.iter().any(|(own, is)| own == name && is.eq_ignore_ascii_case(value))
    };
    if is("group_replication_single_primary_mode", "OFF") {
        return Some(
            "several servers of its group take writes: let one do that \
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
