//! A database for a test, and short ways to use it.

use fencing::sql::Protected;

pub use super::place::{self, Db, LEVELS, Place};
pub use crate::common::*;
pub use support::place::single;

pub async fn migrated() -> Place {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    place
}

/// A database with the tables of the fence and those of an application.
pub async fn with(tables: &str) -> Place {
    let place = migrated().await;
    run(&place.pool, tables).await;
    place
}

/// A database with the fence's tables and an application's, which counts the writes that landed on top of a newer one.
pub async fn ready() -> Place {
    with(FILES).await
}

pub const FILES: &str = "CREATE TABLE files (
        path VARCHAR(255) PRIMARY KEY, token BIGINT NOT NULL, late BIGINT NOT NULL);
    INSERT INTO files VALUES ('files/a', 0, 0)";

/// The table of clients in other languages.
pub const DOCUMENTS: &str = "CREATE TABLE documents (path VARCHAR(255) PRIMARY KEY, body VARCHAR(255))";

/// What they have written there.
pub async fn bodies(place: &Place) -> Vec<String> {
    sqlx::query_scalar("SELECT body FROM documents ORDER BY path").fetch_all(&place.pool).await.unwrap()
}

/// What a client writes to that table: its token, and what the write itself presents. MySQL sets one column after the
/// other.
pub async fn write(tx: &mut Transaction<'_, Db>, token: Token, presents: &str) -> sqlx::Result<()> {
    let update = format!(
        "UPDATE files SET late = late + CASE WHEN token > $1 THEN 1 ELSE 0 END, token = $2{presents}
        WHERE path = 'files/a'"
    );
    let update = sqlx::query(place::sql(&update)).bind(i64::from(token)).bind(i64::from(token));
    update.persistent(false).execute(&mut **tx).await.map(drop)
}

/// The token of the last write, and how many writes were late.
pub async fn file(place: &Place) -> (i64, i64) {
    sqlx::query_as("SELECT token, late FROM files").fetch_one(&place.pool).await.unwrap()
}

/// Runs statements, whatever comes of them.
pub async fn attempt<'e>(on: impl Executor<'e, Database = Db>, statements: &str) -> Result<(), AdmitError> {
    Ok(sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(on).await.map(drop)?)
}

pub async fn run<'e>(on: impl Executor<'e, Database = Db>, statements: &str) {
    attempt(on, statements).await.unwrap_or_else(|error| panic!("{statements}: {error}"));
}

pub async fn number<'e>(on: impl Executor<'e, Database = Db>, query: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(on).await.unwrap()
}

pub async fn begin(pool: &Pool<Db>, number: u64) -> Result<Transaction<'static, Db>, AdmitError> {
    sql::begin(pool, &resource(), token(number)).await
}

pub async fn admitted(pool: &Pool<Db>, number: u64) -> Transaction<'static, Db> {
    let mut tx = pool.begin().await.unwrap();
    sql::admit(&mut tx, &resource(), token(number)).await.unwrap();
    tx
}

/// A transaction that presents a token, to all tables.
pub async fn presenting(pool: &Pool<Db>, number: u64) -> Transaction<'static, Db> {
    let mut tx = pool.begin().await.unwrap();
    sql::present(&mut tx, token(number)).await.unwrap();
    tx
}

pub async fn raise(pool: &Pool<Db>, resource: &Resource, number: u64) {
    sql::begin(pool, resource, token(number)).await.unwrap().commit().await.unwrap();
}

/// A lock service that is as patient as a busy machine needs.
pub fn lock(pool: &Pool<Db>) -> SqlLock<Db> {
    let (ttl, budget) = (Duration::from_secs(60), Duration::from_secs(20));
    SqlLock::builder(pool.clone()).ttl(ttl).budget(budget).build().unwrap()
}

/// Guards the rows of a table: that with the path `a` is the resource `files/a`.
pub fn by_path(table: &str) -> Protect {
    Protect::rows(table, "path").unwrap().prefix("files/").unwrap()
}

/// A database with a protected table `files`, which has these first columns.
pub async fn protected(columns: &str) -> Place {
    let place = with(&format!("CREATE TABLE files ({columns}, body TEXT)")).await;
    by_path("files").apply(&place.pool).await.unwrap();
    place
}

/// What the catalogue says of a table.
pub async fn found(pool: &Pool<Db>, table: &str) -> Protected {
    sql::protected(pool, Some(table)).await.unwrap().remove(0)
}

/// What the catalogue finds wrong with the protected table `files`.
pub async fn faults(place: &Place) -> String {
    found(&place.pool, "files").await.faults.join("; ")
}

/// The catalogue finds this wrong after a change of the protected table, until it is protected again.
pub async fn is_found_and_mended(place: &Place, change: &str, expected: &str) {
    assert_eq!(faults(place).await, "");
    run(&place.pool, change).await;
    let found = faults(place).await;
    assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{found}");
    by_path("files").apply(&place.pool).await.unwrap();
    assert_eq!(faults(place).await, "", "{change}");
}

pub async fn is_lost(pool: &Pool<Db>, part: &str) {
    let error = sql::migrate(pool).await.unwrap_err();
    assert!(matches!(error, MigrateError::Lost { .. }), "{error:?}");
    assert!(error.to_string().contains(part), "{error}");
}

/// Migrates as where nothing was migrated before.
pub async fn migrate_again(place: &Place) {
    run(&place.pool, "DELETE FROM _fencing_migrations").await;
    sql::migrate(&place.pool).await.unwrap();
}
