//! The examples `diesel` and `sea_orm` on real databases: what they write, and what the fence refuses, which they read
//! from the errors of their libraries.

use std::process::{Command, Stdio};

use fencing::{Resource, Token, sql};
use sea_orm::{ConnectionTrait, DbErr, RuntimeErr, SqlxPostgresConnector};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, PgPool, SqlitePool};
use support::postgres::PostgresServer;

/// Runs an example on a database, twice. The second time its first token is stale from the beginning.
fn runs_twice(binary: &str, database: &str) {
    for first in ["written with token 33", STALE] {
        let mut command = Command::new(binary);
        command.arg(database).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{:?}", output.status);
        let written = "written with token 34";
        let said = format!("first: {first}\nsecond: {written}\nlate: {STALE}\nagain: {written}\n");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), said);
    }
}

const STALE: &str = "refused, token 33 of files/report is stale, high water 34";

/// What both leave in a pool's database.
macro_rules! is_left {
    ($pool:expr) => {
        let (pool, report) = ($pool, Resource::new("files/report").unwrap());
        let files = sqlx::query_as::<_, (String, String)>("SELECT path, body FROM files");
        let files = files.fetch_all(&pool).await.unwrap();
        assert_eq!(files, [(report.to_string(), "again".to_owned())]);
        assert_eq!(sql::highest(&pool, &report).await.unwrap(), Token::new(34).ok());
    };
}

#[tokio::test]
async fn diesel_writes_and_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.db");
    runs_twice(env!("CARGO_BIN_EXE_diesel"), path.to_str().unwrap());
    is_left!(SqlitePool::connect_lazy_with(SqliteConnectOptions::new().filename(&path)));
}

#[tokio::test]
async fn sea_orm_writes_and_is_refused() {
    let server = PostgresServer::start();
    let options = server.database().await;
    runs_twice(env!("CARGO_BIN_EXE_sea_orm"), options.to_url_lossy().as_ref());
    is_left!(PgPool::connect_lazy_with(options.clone()));

    // The driver's error is within the library's.
    let pool = PgPool::connect_lazy_with(options.options([("lock_timeout", "100ms")]));
    let report = Resource::new("files/report").unwrap();
    let _held = sql::begin(&pool, &report, Token::new(35).unwrap()).await.unwrap();
    let db = SqlxPostgresConnector::from_sqlx_postgres_pool(pool);
    let newer = db.execute_unprepared("SELECT fencing_admit('files/report', 36)").await;
    let Err(DbErr::Exec(RuntimeErr::SqlxError(error))) = &newer else { panic!("{newer:?}") };
    assert!(sql::is_retryable(&**error), "{error:?}");
}
