//! A transaction that writes many rows, each of a resource of its own.

use fencing::Resource;
use fencing::sql::{self, Protect};
use sqlx::Executor;

use super::place::Place;
use crate::common::{retryable, stale, token};

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
