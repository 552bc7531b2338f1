//! Transactions that write many rows, each of a resource of its own.

use sqlx::PgPool;

use super::setup::*;

async fn write(pool: &PgPool, number: u64, statement: &str) -> Result<(), AdmitError> {
    let mut tx = pool.begin().await?;
    sql::present(&mut tx, token(number)).await?;
    attempt(&mut *tx, statement).await?;
    Ok(tx.commit().await?)
}

/// Also those that it has not queued for.
#[tokio::test]
async fn it_keeps_newer_tokens_out_of_all_of_them() {
    let place = protected("path text PRIMARY KEY").await;
    let insert = "INSERT INTO files SELECT i::text, '' FROM generate_series(1, 100) AS i";
    write(&place.pool, 33, insert).await.unwrap();
    // The first contact of a token, and a later one.
    for _ in 0..2 {
        let mut tx = presenting(&place.pool, 34).await;
        run(&mut *tx, "UPDATE files SET body = '34'").await;
        let queued = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
            AND pid = pg_backend_pid()";
        let queued = number(&mut *tx, queued).await;
        assert!((1..100).contains(&queued), "{queued}");
        let impatient = place.impatient();
        for number in [1, 50, 100] {
            let name = named(&format!("files/{number}"));
            retryable(sql::begin(&impatient, &name, token(35)).await);
            stale(sql::begin(&impatient, &name, token(32)).await);
        }
        tx.commit().await.unwrap();
    }
    for number in [1, 50, 100] {
        raise(&place.pool, &named(&format!("files/{number}")), 35).await;
    }
    stale(write(&place.pool, 34, "UPDATE files SET body = '34'").await);
}

#[tokio::test]
async fn what_was_admitted_is_not_after_a_raise_of_its_own_or_a_savepoint_that_took_it_back() {
    let place = protected("path text PRIMARY KEY").await;
    write(&place.pool, 33, "INSERT INTO files VALUES ('a', '')").await.unwrap();
    let mut tx = presenting(&place.pool, 33).await;
    for body in ["one", "two"] {
        run(&mut *tx, &format!("UPDATE files SET body = '{body}'")).await;
    }
    sql::admit(&mut tx, &resource(), token(34)).await.unwrap();
    stale(attempt(&mut *tx, "UPDATE files SET body = 'three'").await);
    tx.rollback().await.unwrap();
    raise(&place.pool, &resource(), 34).await;
    // Rolling back to a savepoint drops the admission's locks: the next write admits again.
    let mut tx = presenting(&place.pool, 34).await;
    run(&mut *tx, "SAVEPOINT one; UPDATE files SET body = '34'; ROLLBACK TO SAVEPOINT one").await;
    raise(&place.pool, &resource(), 35).await;
    stale(attempt(&mut *tx, "UPDATE files SET body = '34'").await);
}

/// Two fences in one database have marks of their own, also for one name.
#[tokio::test]
async fn what_one_fence_has_admitted_another_one_refuses() {
    let place = Place::empty().await;
    let schema = async |name: &'static str| {
        let pool = single(&place.with(&[("search_path", name)]));
        run(&pool, &format!("CREATE SCHEMA {name}")).await;
        sql::migrate(&pool).await.unwrap();
        run(&pool, "CREATE TABLE files (path text PRIMARY KEY, body text)").await;
        by_path("files").apply(&pool).await.unwrap();
        pool
    };
    let (one, other) = (schema("one").await, schema("other").await);
    for (pool, number) in [(&one, 33), (&other, 34)] {
        write(pool, number, "INSERT INTO files VALUES ('a', '')").await.unwrap();
    }
    let mut tx = presenting(&one, 33).await;
    run(&mut *tx, "UPDATE one.files SET body = '33'").await;
    stale(attempt(&mut *tx, "UPDATE other.files SET body = '33'").await);
}
