//! A transaction that writes many rows, each of a resource of its own.

use fencing::Resource;
use fencing::sql::{self, Protect};

use super::setup::{attempt, by_path, migrated, number, raise, run, with};
use crate::common::{resource, retryable, stale, token};

#[tokio::test]
async fn one_transaction_writes_thirty_thousand_resources() {
    let place = with("CREATE TABLE files (path INT PRIMARY KEY, body TEXT)").await;
    Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    let insert = "INSERT INTO files SELECT seq, '' FROM seq_1_to_30000";
    let update = "UPDATE files SET body = 'new'";
    let last = Resource::new("30000").unwrap();
    for (number, write) in [(34, insert), (34, update), (35, update)] {
        let mut tx = place.pool.begin().await.unwrap();
        sql::present(&mut tx, token(number)).await.unwrap();
        run(&mut *tx, write).await;
        retryable(sql::begin(&place.impatient(), &last, token(36)).await);
        tx.commit().await.unwrap();
    }
    stale(sql::begin(&place.pool, &last, token(34)).await);
    let marks = "SELECT count(*) FROM fencing_marks WHERE token = 35";
    assert_eq!(number(&place.pool, marks).await, 30_000);
}

/// Also in a session whose clock stands still, where every statement looks like the one that was admitted.
#[tokio::test]
async fn what_an_earlier_statement_was_admitted_with_is_compared_again() {
    let place = migrated().await;
    let files = "CREATE TABLE files (path VARCHAR(50) PRIMARY KEY, body TEXT)";
    run(&place.pool, files).await;
    by_path("files").apply(&place.pool).await.unwrap();
    let mut session = place.pool.acquire().await.unwrap();
    for statement in [
        "SET timestamp = 1000000000",
        "SET @fencing_token = 33",
        "INSERT INTO files VALUES ('a', ''), ('b', '')",
        "UPDATE files SET body = '33' WHERE path = 'a'",
    ] {
        run(&mut *session, statement).await;
    }
    raise(&place.pool, &resource(), 34).await;
    stale(attempt(&mut *session, "UPDATE files SET body = 'stale' WHERE path = 'a'").await);
}
