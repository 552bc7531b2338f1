use ::diesel::connection::SimpleConnection;
use ::diesel::prelude::*;
use ::diesel::sql_types::{BigInt, Text};
use fencing::sql::statement::sqlite::{ADMIT, MIGRATIONS};
use fencing::sql::{self, AdmitError};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use tempfile::TempDir;

use super::{FIRST_RUN, SECOND_RUN, example, refusal, report, token};

/// A database for both: they have one SQLite, in one process.
fn both() -> (TempDir, SqliteConnection, SqlitePool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.db");
    let mut conn = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
    conn.batch_execute("PRAGMA journal_mode = WAL; PRAGMA busy_timeout = 0").unwrap();
    for (_, _, statements) in MIGRATIONS {
        conn.batch_execute(statements).unwrap();
    }
    let options =
        SqliteConnectOptions::new().filename(path).busy_timeout(std::time::Duration::ZERO);
    (folder, conn, SqlitePoolOptions::new().connect_lazy_with(options))
}

fn admit(conn: &mut SqliteConnection, number: u64) -> QueryResult<()> {
    let admit = ::diesel::sql_query(ADMIT).bind::<Text, _>(report().as_str().to_owned());
    admit.bind::<BigInt, _>(i64::from(token(number))).execute(conn).map(drop)
}

#[tokio::test]
async fn the_example_writes_and_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.db");
    let database = path.to_str().unwrap();
    assert_eq!(example("diesel", database), FIRST_RUN);
    assert_eq!(example("diesel", database), SECOND_RUN);

    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&path)).await.unwrap();
    let files = sqlx::query_as::<_, (String, String)>("SELECT path, body FROM files");
    let files = files.fetch_all(&pool).await.unwrap();
    assert_eq!(files, [("files/report".to_owned(), "again".to_owned())]);
    assert_eq!(sql::highest(&pool, &report()).await.unwrap(), Some(token(34)));
}

#[tokio::test]
async fn its_transactions_and_the_crates_own_keep_each_other_out() {
    let (_folder, mut conn, pool) = both();
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || {
        let held = conn.immediate_transaction(|conn| {
            admit(conn, 34)?;
            let newer = runtime.block_on(sql::begin(&pool, &report(), token(35)));
            assert!(matches!(newer, Err(AdmitError::Retryable(_))), "{newer:?}");
            QueryResult::Ok(())
        });
        held.unwrap();

        let tx = runtime.block_on(sql::begin(&pool, &report(), token(35))).unwrap();
        let error = conn.immediate_transaction(|conn| admit(conn, 36)).unwrap_err();
        assert_eq!(
            sql::stale(&error, &report(), token(36)),
            None,
            "BUSY says nothing of the token"
        );
        assert!(error.to_string().contains("database is locked"), "{error}");
        runtime.block_on(tx.commit()).unwrap();

        let error = conn.immediate_transaction(|conn| admit(conn, 34)).unwrap_err();
        assert_eq!(sql::stale(&error, &report(), token(34)), Some(refusal(34, 35)));
        conn.immediate_transaction(|conn| admit(conn, 35)).unwrap();
    })
    .await
    .unwrap();
}
