//! What a session brings along: a temporary table comes before the real one, where no schema is named.

use fencing::fence::Marks;
use fencing::lock::sql::SqlLock;
use fencing::sql::SqlMarks;

use super::*;

/// Refused or an error: no way in accepts 33 where the mark is 34.
#[tokio::test]
async fn a_temporary_table_does_not_stand_for_the_marks() {
    let place = ready().await;
    run(&place.pool, "CREATE TABLE documents (path VARCHAR(99), body VARCHAR(99))").await;
    by_path("documents").apply(&place.pool).await.unwrap();
    place.client(&place::insert(Some("34"), "a", "new")).unwrap();
    let pool = single(&place);
    for statement in [
        "CREATE TEMPORARY TABLE fencing_marks (
            resource VARCHAR(255) PRIMARY KEY, token BIGINT)",
        "INSERT INTO fencing_marks VALUES ('files/a', 33)",
        place::TEMPORARY,
    ] {
        run(&pool, statement).await;
    }
    sql::begin(&pool, &resource(), token(33)).await.unwrap_err();
    SqlMarks::new(pool.clone()).raise(&resource(), token(33)).await.unwrap_err();
    let write = || sql::guarded("UPDATE files SET late = late", "path = 'files/a'");
    write().begin(&pool, &resource(), token(33)).await.map(drop).unwrap_err();
    let mut tx = pool.begin().await.unwrap();
    sql::admit(&mut tx, &resource(), token(33)).await.unwrap_err();
    tx.rollback().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let name = resource();
    let admit = sqlx::query(place::ADMIT).bind(place::name(&name)).bind(33_i64);
    admit.execute(&mut *tx).await.unwrap_err();
    tx.rollback().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    sql::present(&mut tx, token(33)).await.unwrap();
    attempt(&mut *tx, &place::guarded(Some(33))).await.unwrap_err();
    tx.rollback().await.unwrap();
    // A client that is not stale is not kept out.
    let (tx, rows) = write().begin(&pool, &resource(), token(35)).await.unwrap();
    assert_eq!(rows, 1);
    tx.commit().await.unwrap();
    assert_eq!(highest(&place, &resource()).await, Some(35));
    // A lease has a token above the mark, and an operator sees the mark.
    let lock = SqlLock::new(pool.clone());
    assert_eq!(lock.acquire(&resource()).await.unwrap().token(), token(36));
    assert!(lock.health().await.has_quorum());
    let listed = sql::marks(&pool, &[], 10).await.unwrap();
    assert_eq!(listed[0].number, Some(35), "{listed:?}");
}
