//! A role that may not create anything.

use fencing::sql::{self, MigrateError};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool};

use super::place::Place;

/// A pool of a role of its own, after these GRANTs to it: `$role` stands for its name.
async fn role(place: &Place, grants: &str) -> PgPool {
    let options = (*place.pool.connect_options()).clone();
    let role = format!("writer_{}", options.get_database().unwrap());
    let grants = format!("CREATE ROLE $role LOGIN; {grants}").replace("$role", &role);
    sqlx::raw_sql(AssertSqlSafe(grants)).execute(&place.pool).await.unwrap();
    PgPoolOptions::new().connect_lazy_with(options.username(&role))
}

#[tokio::test]
async fn who_may_only_read_may_migrate_where_nothing_is_to_be_done() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    let pool = role(&place, "GRANT SELECT ON _fencing_migrations TO $role").await;
    sql::migrate(&pool).await.unwrap();
    // The applied one is another, and that is for somebody else to put right.
    let change = "UPDATE _fencing_migrations SET checksum = ''";
    sqlx::query(change).execute(&place.pool).await.unwrap();
    sql::migrate(&pool).await.unwrap_err();
}

#[tokio::test]
async fn who_may_not_even_read_is_told_what_is_missing() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    let pool = role(&place, "").await;
    let error = sql::migrate(&pool).await.unwrap_err();
    assert!(matches!(error, MigrateError::Database(_)), "{error:?}");
    assert!(error.to_string().contains("permission denied for table _fencing_migrations"));
}
