//! What a migration finds missing.

use super::server::rights::Users;
use super::setup::*;

#[tokio::test]
async fn who_may_not_even_read_is_told_what_is_missing() {
    let error = sql::migrate(&Users::granted().await.user("app_2")).await.unwrap_err();
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
