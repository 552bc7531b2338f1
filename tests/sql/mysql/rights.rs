//! The rights of docs/reference/sql.md in the words of MySQL: `postgres/rights.rs` says what each is.

use std::sync::OnceLock;

use sqlx::MySqlPool;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError, MySqlPoolOptions};
use support::mariadb::MariadbServer;

use super::server::rights::{USERS, pool};
use super::setup::*;

static SERVER: OnceLock<MariadbServer> = OnceLock::new();

pub fn grants() -> String {
    documented("## A mark that is too high") + include_str!("../../../ops/rights/mysql.sql")
}

pub const CALL: &str = "CALL";
pub const RAISE_FLOOR: &str = "CALL fencing_raise_floor(34, FALSE)";
pub const HOLD: &str = "CALL fencing_hold('files/a', 39, 0)";
pub const OTHER_CALL: &str = "CALL fencing_hold('files/a', 40, NULL)";

pub const SESSIONS: &[&str] = &["SELECT 1"];
pub const WRITERS_MAY_NOT: &[&str] = &["CALL fencing_admit('files/a', 39)", "SELECT * FROM fencing_marks"];

/// The last lease was granted on a Galera cluster, as its dump or its replica has it.
pub const OTHER_SERVER: &str = "UPDATE fencing_floor SET server = 0";
pub const CHANGE_LEASES: &str = "UPDATE fencing_leases SET token = 1";

pub fn present(sequencer: &str) -> String {
    format!("SET @fencing_sequencer = '{sequencer}'")
}

/// An owner who has all rights in a database of its own.
pub async fn owner() -> MySqlPool {
    let settings = ["log-bin=log", "log-bin-trust-function-creators=1"];
    let server = SERVER.get_or_init(|| MariadbServer::with(&settings));
    owner_of(server.database().await).await
}

async fn owner_of(database: MySqlConnectOptions) -> MySqlPool {
    let name = database.get_database().unwrap().to_owned();
    let admin = MySqlPoolOptions::new().max_connections(1).connect_lazy_with(database);
    // The server takes every user of this machine for the one without a name.
    run(&admin, "DELETE FROM mysql.global_priv WHERE User = ''; FLUSH PRIVILEGES").await;
    for user in USERS {
        run(&admin, &format!("CREATE USER IF NOT EXISTS {user}")).await;
    }
    run(&admin, &format!("GRANT ALL ON {name}.* TO fence_owner WITH GRANT OPTION")).await;
    pool(&admin, "fence_owner")
}

/// Access denied: to the database, the table, the column, the procedure, or without a right.
pub fn is_denied(error: &sqlx::Error) -> bool {
    let error = error.as_database_error().unwrap().downcast_ref::<MySqlDatabaseError>();
    [1044, 1142, 1143, 1227, 1370].contains(&error.number())
}

pub const OWNERS: &[&str] = &[
    "UPDATE fencing_marks_base SET token = 999999999999999",
    "REPLACE INTO fencing_marks_base VALUES ('files/a', 1)",
    "DROP TABLE fencing_marks",
    "DROP TRIGGER fencing_marks_lower",
    "INSERT INTO fencing_audit VALUES (1, 'files/a', 34, 1, '', NULL)",
    "DROP TRIGGER fencing_update_documents",
    "CREATE TRIGGER mine BEFORE UPDATE ON documents FOR EACH ROW SET NEW.body = ''",
    "CREATE TEMPORARY TABLE fencing_marks (resource VARBINARY(255), token BIGINT)",
    "CREATE TEMPORARY TABLE fencing_marks_base (resource VARBINARY(255), token BIGINT)",
    "CREATE TABLE mine (a INT)",
    "CREATE PROCEDURE mine() SELECT 1",
    "ALTER PROCEDURE fencing_admit SQL SECURITY INVOKER",
    "DROP PROCEDURE fencing_admit",
    "CALL fencing_check('files/x', '34')",
];

/// A binary log lets few users create triggers.
#[tokio::test]
async fn to_migrate_needs_no_right_beyond_the_database() {
    let server = MariadbServer::with(&["log-bin=log"]);
    let owner = owner_of(server.database().await).await;
    sql::migrate(&owner).await.unwrap();
    raise(&owner, &resource(), 34).await;
    attempt(&owner, &documented("## A mark that is too high")).await.unwrap_err();
    sql::lower(&owner, &resource(), token(34), token(33)).await.unwrap();
}

/// A pool of a user of its own, who may create nothing: who may read the migrations, and these procedures.
async fn reader(place: &Place, procedures: &str) -> MySqlPool {
    let options = (*place.pool.connect_options()).clone();
    let user = format!("writer_{}", options.get_database().unwrap());
    let create = format!("CREATE USER {user}@localhost");
    let read = format!("GRANT SELECT ON _fencing_migrations TO {user}@localhost");
    let execute = procedures.replace("$user", &format!("{user}@localhost"));
    run(&place.pool, &format!("{create}; {read}; {execute}")).await;
    MySqlPoolOptions::new().connect_lazy_with(options.username(&user))
}

#[tokio::test]
async fn who_may_execute_all_is_told_of_one_that_is_lost() {
    let place = migrated().await;
    let name = place.pool.connect_options().get_database().unwrap().to_owned();
    let pool = reader(&place, &format!("GRANT EXECUTE ON {name}.* TO $user")).await;
    sql::migrate(&pool).await.unwrap();
    run(&place.pool, "DROP PROCEDURE fencing_hold").await;
    is_lost(&pool, "fencing_hold").await;
}

/// As a dump without --routines leaves it.
#[tokio::test]
async fn who_sees_no_procedure_is_told_that_they_are_lost() {
    let place = migrated().await;
    let routines = "SELECT CAST(routine_name AS CHAR) FROM information_schema.routines
        WHERE routine_schema = DATABASE()";
    for name in sqlx::query_scalar::<_, String>(routines).fetch_all(&place.pool).await.unwrap() {
        run(&place.pool, &format!("DROP PROCEDURE {name}")).await;
    }
    for pool in [&reader(&place, "").await, &place.pool] {
        is_lost(pool, "fencing_lease_renew").await;
    }
}
