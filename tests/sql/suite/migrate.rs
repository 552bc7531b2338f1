use std::borrow::Cow;

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use support::place::VERSIONS;

use super::*;

async fn tables(place: &Place) -> Vec<String> {
    let tables = sqlx::query_scalar::<_, String>(place::TABLES);
    let mut tables = tables.fetch_all(&place.pool).await.unwrap();
    tables.sort();
    tables
}

async fn versions(place: &Place) -> Vec<i64> {
    let versions = "SELECT version FROM _fencing_migrations ORDER BY version";
    sqlx::query_scalar(versions).fetch_all(&place.pool).await.unwrap()
}

#[tokio::test]
async fn migrating_again_changes_nothing() {
    let place = migrated().await;
    admit(&place, &resource(), 34).await.unwrap();
    // Nor where another tool made the tables.
    for change in ["SELECT 1", "SELECT 2", "DROP TABLE _fencing_migrations"] {
        run(&place.pool, change).await;
        sql::migrate(&place.pool).await.unwrap();
    }
    stale(admit(&place, &resource(), 33).await);
    assert_eq!(tables(&place).await, place::OURS);
    assert_eq!(versions(&place).await, VERSIONS);
    // Nor where a newer version has migrated already.
    let newer = "INSERT INTO _fencing_migrations (version, description, success, checksum, execution_time)
        SELECT 1000, description, success, checksum, 0 FROM _fencing_migrations WHERE version = 1";
    run(&place.pool, newer).await;
    sql::migrate(&place.pool).await.unwrap();
}

#[tokio::test]
async fn ten_may_migrate_at_once() {
    let place = Place::empty().await;
    let starts = (0..10).map(async |number| {
        // Some as impatient as can be, and of any default level.
        let level = place::DEFAULTS[number % place::DEFAULTS.len()];
        let pool = if number % 2 == 0 { place.at(level) } else { place.impatient() };
        sql::migrate(&pool).await.unwrap();
    });
    join_all(starts).await;
    admit(&place, &resource(), 34).await.unwrap();
    assert_eq!(versions(&place).await, VERSIONS);
}

fn application() -> Migrator {
    let sql = "CREATE TABLE invoices (id BIGINT PRIMARY KEY)".into_sql_str();
    Migrator::with_migrations(vec![Migration::new(1, Cow::Borrowed("x"), MigrationType::Simple, sql, false)])
}

#[tokio::test]
async fn the_application_has_migrations_of_its_own() {
    for ours_first in [true, false] {
        let place = Place::empty().await;
        if ours_first {
            sql::migrate(&place.pool).await.unwrap();
        }
        // The same version number as ours.
        application().run(&place.pool).await.unwrap();
        sql::migrate(&place.pool).await.unwrap();
        application().run(&place.pool).await.unwrap();
        let mut all = [place::OURS, &["_sqlx_migrations", "invoices"]].concat();
        all.sort_unstable();
        assert_eq!(tables(&place).await, all);
        assert_eq!(number(&place.pool, "SELECT count(*) FROM _sqlx_migrations").await, 1);
    }
}

#[tokio::test]
async fn a_changed_migration_is_an_error() {
    let place = ready().await;
    let change = sqlx::query(place::sql("UPDATE _fencing_migrations SET checksum = $1"));
    change.bind(vec![0_u8; 48]).execute(&place.pool).await.unwrap();
    let error = sql::migrate(&place.pool).await.unwrap_err();
    assert!(matches!(error, MigrateError::Changed(_)), "{error:?}");
    // The failure has left no lock behind.
    run(&place.pool, "DELETE FROM _fencing_migrations").await;
    sql::migrate(&place.other()).await.unwrap();
}

#[tokio::test]
async fn a_migration_dropped_at_any_poll_leaves_no_lock() {
    let place = Place::empty().await;
    for polls in 1..25 {
        poll(polls, sql::migrate(&place.pool)).await;
    }
    sql::migrate(&place.other()).await.unwrap();
    admit(&place, &resource(), 34).await.unwrap();
}

#[tokio::test]
async fn the_fence_is_removed_but_not_under_a_protected_table() {
    let place = ready().await;
    admit(&place, &resource(), 34).await.unwrap();
    Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    attempt(&place.pool, sql::removal::<Db>()).await.unwrap_err();
    assert_eq!(highest(&place, &resource()).await, Some(34));
    stale(admit(&place, &resource(), 33).await);
    found(&place.pool, "files").await.remove(&place.pool).await.unwrap();
    for _ in 0..2 {
        run(&place.pool, sql::removal::<Db>()).await;
        assert_eq!(tables(&place).await, ["files"]);
    }
    sql::migrate(&place.pool).await.unwrap();
    assert_eq!(highest(&place, &resource()).await, None);
    admit(&place, &resource(), 1).await.unwrap();
}
