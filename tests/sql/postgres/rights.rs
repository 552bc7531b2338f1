//! The rights of docs/reference/sql.md in the words of PostgreSQL.

use std::sync::OnceLock;

use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use support::postgres::PostgresServer;

use super::server::rights::{UPDATE, USERS, are_denied, granted, pool};
use super::setup::*;

/// One for all tests of rights.
static SERVER: OnceLock<PostgresServer> = OnceLock::new();

/// What the owner runs.
pub fn grants() -> String {
    include_str!("../../../ops/rights/postgres.sql").into()
}

pub const CALL: &str = "SELECT";
pub const RAISE_FLOOR: &str = "SELECT fencing_raise_floor(34)";
pub const HOLD: &str = "SELECT fencing_hold('x', 1, true)";
pub const OTHER_CALL: &str = "CALL fencing_begin('files/a', 40)";

/// What a session begins with that writes a protected table, and what it may not do.
pub const SESSIONS: &[&str] = &["SELECT 1", "CREATE TEMPORARY TABLE fencing_marks (resource text, token bigint)"];
pub const WRITERS_MAY_NOT: &[&str] = &["SELECT fencing_admit('files/a', 39)", "SELECT fencing_compare('files/a', 39)"];

/// The last lease was granted on a server that was lost.
pub const OTHER_SERVER: &str = "UPDATE fencing_floor SET server = 'another'";
pub const CHANGE_LEASES: &str = "TRUNCATE fencing_leases";

pub fn present(sequencer: &str) -> String {
    format!("SELECT fencing_present('{sequencer}')")
}

/// An owner of a database who is no superuser.
pub async fn owner() -> PgPool {
    let server = SERVER.get_or_init(|| PostgresServer::with(&["fsync=off", "lock_timeout=20s"]));
    let database = server.database().await;
    let name = database.get_database().unwrap().to_owned();
    let admin = PgPoolOptions::new().max_connections(1).connect_lazy_with(database);
    for user in USERS {
        let exists = "EXCEPTION WHEN duplicate_object OR unique_violation THEN";
        run(&admin, &format!("DO $$ BEGIN CREATE ROLE {user} LOGIN; {exists} END $$")).await;
    }
    run(&admin, &format!("ALTER DATABASE {name} OWNER TO fence_owner")).await;
    // As it is before version 15.
    run(&admin, "GRANT CREATE ON SCHEMA public TO PUBLIC").await;
    pool(&admin, "fence_owner")
}

pub fn is_denied(error: &sqlx::Error) -> bool {
    error.as_database_error().unwrap().code().as_deref() == Some("42501")
}

/// What only the owner may do here; `OWNERS` of the suite has what holds on both databases.
pub const OWNERS: &[&str] = &[
    "UPDATE fencing_marks SET token = 999999999999999",
    "ALTER TABLE fencing_marks DISABLE TRIGGER USER",
    "DROP TRIGGER fencing_marks_lower ON fencing_marks",
    "INSERT INTO fencing_audit (resource, from_token, to_token) VALUES ('files/a', 34, 1)",
    "SELECT * FROM fencing_floor",
    "ALTER TABLE fencing_floor DISABLE TRIGGER USER",
    "ALTER TABLE documents DISABLE TRIGGER USER",
    "DROP TRIGGER fencing_protect ON documents",
    "SET session_replication_role = replica",
    "SET ROLE fence_owner",
    "CREATE TABLE public.mine (a int)",
    "CREATE FUNCTION public.fencing_check(varchar) RETURNS void LANGUAGE sql AS ''",
    "ALTER FUNCTION fencing_admit SECURITY INVOKER",
    "SELECT fencing_hold('files/x', 34, true)",
    "SELECT fencing_present('34'); SELECT fencing_check('files/x')",
    "CREATE TEMPORARY TABLE mine (path text);
        CREATE TRIGGER mine BEFORE INSERT ON mine FOR EACH ROW
        EXECUTE FUNCTION fencing_protect('refuse', 'path', '')",
];

#[tokio::test]
async fn applications_do_not_read_the_marks_and_are_told_which_right_is_missing_on_the_migrations() {
    let owner = granted().await;
    for name in &USERS[1..5] {
        are_denied(&pool(&owner, name), &["SELECT * FROM fencing_marks"]).await;
    }
    run(&owner, "REVOKE SELECT ON _fencing_migrations FROM app_2").await;
    let error = sql::migrate(&pool(&owner, "app_2")).await.unwrap_err();
    assert!(matches!(error, MigrateError::Database(_)), "{error:?}");
    assert!(error.to_string().contains("permission denied for table _fencing_migrations"));
}

#[tokio::test]
async fn who_begins_above_read_committed_needs_no_right_on_the_marks() {
    let level = [("default_transaction_isolation", "serializable")];
    let options = pool(&granted().await, "app_1").connect_options().as_ref().clone().options(level);
    let serializable = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
    raise(&serializable, &resource(), 36).await;
    stale(sql::begin(&serializable, &resource(), token(35)).await);
}

/// With the rights of docs/reference/sql.md, and with none at all on the fence.
#[tokio::test]
async fn in_shadow_mode_nobody_is_refused_for_want_of_a_right() {
    let owner = granted().await;
    let protect = by_path("documents");
    protect.shadow().apply(&owner).await.unwrap();
    let presented = |number| format!("SELECT fencing_present('{number} files/a'); {UPDATE}");
    let app = pool(&owner, "app_3");
    for write in [UPDATE.to_owned(), presented(33), presented(35)] {
        run(&app, &write).await;
    }
    assert_eq!(sql::highest(&owner, &resource()).await.unwrap(), Some(token(35)));
    run(&owner, "ALTER FUNCTION fencing_protect SECURITY INVOKER").await;
    run(&app, UPDATE).await;
}

/// The guard of the marks, and no trigger of this name on another table.
#[tokio::test]
async fn a_trigger_on_the_marks_that_does_not_fire_is_lost() {
    const OTHER: &str = "CREATE SCHEMA other; SET search_path = other;
        CREATE TABLE other.fencing_marks (resource text, token bigint);
        CREATE FUNCTION other.fencing_guard() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN RETURN NEW; END';
        CREATE TRIGGER fencing_marks_lower BEFORE UPDATE ON other.fencing_marks
            FOR EACH ROW EXECUTE FUNCTION other.fencing_guard();
        CREATE FUNCTION other.fencing_check(text) RETURNS void LANGUAGE sql AS '';
        RESET search_path";
    let place = with(OTHER).await;
    for (change, lost) in [
        ("ALTER TABLE fencing_marks DISABLE TRIGGER fencing_marks_lower", "fencing_marks_lower"),
        ("ALTER TABLE fencing_marks ENABLE REPLICA TRIGGER fencing_marks_delete", "fencing_marks_delete"),
        ("DROP TRIGGER fencing_marks_lower ON fencing_marks", "fencing_marks_lower"),
        (
            "DROP TRIGGER fencing_marks_lower ON fencing_marks;
            CREATE TRIGGER fencing_marks_lower BEFORE UPDATE ON fencing_marks
                FOR EACH ROW EXECUTE FUNCTION other.fencing_guard()",
            "fencing_marks_lower",
        ),
        ("DROP FUNCTION fencing_check", "fencing_check"),
    ] {
        run(&place.pool, change).await;
        is_lost(&place.pool, lost).await;
        migrate_again(&place).await;
    }
}

/// A right that is missing, where a migration of a later version gives `fencing_last` the rights of its caller as well.
#[tokio::test]
async fn health_names_what_a_lease_needs() {
    let owner = granted().await;
    let causes = async |pool: PgPool| format!("{:?}", SqlLock::builder(pool).build().unwrap().health().await.causes);
    assert_eq!(causes(pool(&owner, "locks")).await, "[]");
    run(&owner, "REVOKE EXECUTE ON FUNCTION fencing_last FROM locks").await;
    let denied = causes(pool(&owner, "locks")).await;
    assert!(denied.contains("permission denied for function"), "{denied}");
    run(&owner, "GRANT EXECUTE ON FUNCTION fencing_last TO locks").await;
    run(&owner, "ALTER FUNCTION fencing_last SECURITY INVOKER").await;
    assert_eq!(causes(owner.clone()).await, "[]");
    let missing = causes(pool(&owner, "locks")).await;
    assert!(missing.contains("give all rights again"), "{missing}");
    let standby = owner.connect_options().as_ref().clone().options([("default_transaction_read_only", "on")]);
    let standby = causes(PgPool::connect_lazy_with(standby)).await;
    assert!(standby.contains("it takes no writes"), "{standby}");
}
