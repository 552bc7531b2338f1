//! A role that may not create anything.

use fencing::sql::{self, MigrateError, Protect};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use super::place::Place;
use super::setup::{is_lost, migrate_again, migrated, run, with};

/// A pool of a role of its own, after these GRANTs to it: `$role` stands for its name.
async fn role(place: &Place, grants: &str) -> PgPool {
    let options = (*place.pool.connect_options()).clone();
    let role = format!("writer_{}", options.get_database().unwrap());
    let grants = format!("CREATE ROLE $role LOGIN; {grants}").replace("$role", &role);
    run(&place.pool, &grants).await;
    PgPoolOptions::new().connect_lazy_with(options.username(&role))
}

#[tokio::test]
async fn who_may_only_read_may_migrate_where_nothing_is_to_be_done() {
    let place = migrated().await;
    let pool = role(&place, "GRANT SELECT ON _fencing_migrations TO $role").await;
    sql::migrate(&pool).await.unwrap();
    // The applied one is another, and that is for somebody else to put right.
    run(&place.pool, "UPDATE _fencing_migrations SET checksum = ''").await;
    sql::migrate(&pool).await.unwrap_err();
}

#[tokio::test]
async fn who_may_not_even_read_is_told_what_is_missing() {
    let place = migrated().await;
    let pool = role(&place, "").await;
    let error = sql::migrate(&pool).await.unwrap_err();
    assert!(matches!(error, MigrateError::Database(_)), "{error:?}");
    assert!(error.to_string().contains("permission denied for table _fencing_migrations"));
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
        (
            "ALTER TABLE fencing_marks ENABLE REPLICA TRIGGER fencing_marks_delete",
            "fencing_marks_delete",
        ),
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

/// A crash empties a table that is not logged: the marks would start again.
#[tokio::test]
async fn marks_that_a_crash_would_empty_are_refused() {
    let place = with("CREATE TABLE files (path text)").await;
    Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    for table in ["fencing_marks", "fencing_leases"] {
        let alter = async |to| {
            let alter = format!("ALTER TABLE {table} SET {to}");
            run(&place.pool, &alter).await;
        };
        alter("UNLOGGED").await;
        let words = format!("{table} is not logged");
        let error = sql::migrate(&place.pool).await.unwrap_err();
        assert!(matches!(error, MigrateError::Unguarded(_)), "{error:?}");
        assert!(error.to_string().contains(&words), "{error}");
        let found = sql::protected(&place.pool, None).await.unwrap();
        assert!(found[0].faults.join("; ").contains(&words), "{found:?}");
        alter("LOGGED").await;
        sql::migrate(&place.pool).await.unwrap();
        assert!(sql::protected(&place.pool, None).await.unwrap()[0].is_whole());
    }
}
