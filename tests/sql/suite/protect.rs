use fencing::sql::{Protect, ProtectError};

use super::*;

async fn documents() -> Place {
    let place = ready().await;
    let create = "CREATE TABLE documents (path VARCHAR(255) PRIMARY KEY, body VARCHAR(255))";
    sqlx::query(create).execute(&place.pool).await.unwrap();
    place
}

#[tokio::test]
async fn a_column_that_is_missing_is_named_and_nothing_is_changed() {
    let place = documents().await;
    let protect = Protect::rows("documents", "nope").unwrap();
    let error = protect.apply(&place.pool).await.unwrap_err();
    assert!(matches!(error, ProtectError::Column { .. }), "{error:?}");
    assert!(error.to_string().contains("documents has no column nope"), "{error}");
    let insert = sqlx::query("INSERT INTO documents VALUES ('a', 'new')");
    insert.execute(&place.pool).await.unwrap();
}

#[tokio::test]
async fn a_protection_that_stands_outlives_one_that_fails() {
    let place = documents().await;
    Protect::rows("documents", "path").unwrap().apply(&place.pool).await.unwrap();
    let nope = Protect::rows("documents", "nope").unwrap();
    nope.apply(&place.pool).await.unwrap_err();
    let error = place.client(&place::insert(None, "a", "bad")).unwrap_err();
    assert!(error.contains("no token presented, high water none, resource a"), "{error}");
}

#[tokio::test]
async fn a_table_that_is_missing_is_named() {
    let place = ready().await;
    let (by_column, whole) = (Protect::rows("nope", "path"), Protect::whole("nope", resource()));
    for protect in [by_column.unwrap(), whole.unwrap()] {
        let error = protect.apply(&place.pool).await.unwrap_err();
        assert!(matches!(error, ProtectError::Table { .. }), "{error:?}");
        assert!(error.to_string().contains("the table nope does not exist"), "{error}");
    }
}

#[tokio::test]
async fn a_database_without_the_fence_says_what_to_run() {
    let place = Place::empty().await;
    let protect = Protect::rows("documents", "path").unwrap();
    let error = protect.apply(&place.pool).await.unwrap_err();
    assert!(matches!(error, ProtectError::NotMigrated(_)), "{error:?}");
    assert!(error.to_string().contains("run fencing::sql::migrate"), "{error}");
}
