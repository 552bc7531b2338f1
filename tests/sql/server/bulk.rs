//! A transaction that writes many rows, each of a resource of its own.

use super::setup::*;

/// PostgreSQL's table of locks has no room for so many.
#[tokio::test]
async fn one_transaction_writes_thirty_thousand_resources() {
    let place = with("CREATE TABLE files (path INT PRIMARY KEY, body INT)").await;
    Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    let rows = (1..=30_000).map(|path| format!("({path}, 0)")).collect::<Vec<_>>().join(", ");
    let insert = format!("INSERT INTO files VALUES {rows}");
    let update = "UPDATE files SET body = body + 1";
    let last = named("30000");
    for (number, write) in [(34, &*insert), (34, update), (35, update)] {
        let mut tx = presenting(&place.pool, number).await;
        run(&mut *tx, write).await;
        retryable(sql::begin(&place.impatient(), &last, token(36)).await);
        tx.commit().await.unwrap();
    }
    stale(sql::begin(&place.pool, &last, token(34)).await);
    let marks = "SELECT count(*) FROM fencing_marks WHERE token = 35";
    assert_eq!(number(&place.pool, marks).await, 30_000);
}
