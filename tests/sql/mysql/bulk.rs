//! A transaction that writes many rows, each of a resource of its own.

use fencing::Resource;
use fencing::sql::{self, Protect};
use sqlx::Executor;

use super::place::Place;
use crate::common::{resource, retryable, stale, token};

#[tokio::test]
async fn one_transaction_writes_thirty_thousand_resources() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    place.pool.execute("CREATE TABLE files (path INT PRIMARY KEY, body TEXT)").await.unwrap();
    Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    let insert = "INSERT INTO files SELECT seq, '' FROM seq_1_to_30000";
    let update = "UPDATE files SET body = 'new'";
    let last = Resource::new("30000").unwrap();
    for (number, write) in [(34, insert), (34, update), (35, update)] {
        let mut tx = place.pool.begin().await.unwrap();
        sql::present(&mut tx, token(number)).await.unwrap();
        tx.execute(write).await.unwrap();
        retryable(sql::begin(&place.impatient(), &last, token(36)).await);
        tx.commit().await.unwrap();
    }
    stale(sql::begin(&place.pool, &last, token(34)).await);
    let marks = "SELECT count(*) FROM fencing_marks WHERE token = 35";
    assert_eq!(sqlx::query_scalar::<_, i64>(marks).fetch_one(&place.pool).await.unwrap(), 30_000);
}

/// Also in a session whose clock stands still, where every statement looks like the one that was admitted.
#[tokio::test]
async fn what_an_earlier_statement_was_admitted_with_is_compared_again() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    let files = "CREATE TABLE files (path VARCHAR(50) PRIMARY KEY, body TEXT)";
    place.pool.execute(files).await.unwrap();
    Protect::rows("files", "path")
        .unwrap()
        .prefix("files/")
        .unwrap()
        .apply(&place.pool)
        .await
        .unwrap();
    let mut session = place.pool.acquire().await.unwrap();
    for statement in [
        "SET timestamp = 1000000000",
        "SET @fencing_token = 33",
        "INSERT INTO files VALUES ('a', ''), ('b', '')",
        "UPDATE files SET body = '33' WHERE path = 'a'",
    ] {
        session.execute(statement).await.unwrap();
    }
    sql::begin(&place.pool, &resource(), token(34)).await.unwrap().commit().await.unwrap();
    let error =
        session.execute("UPDATE files SET body = 'stale' WHERE path = 'a'").await.unwrap_err();
    stale::<()>(Err(error.into()));
}
