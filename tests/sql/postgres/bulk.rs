//! Transactions that write many rows, each of a resource of its own.

use std::time::Duration;

use fencing::sql::{self, AdmitError};
use fencing::{Resource, Token};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Executor, PgPool};
use support::postgres::PostgresServer;

use super::place::{self, Place};
use super::setup::{attempt, by_path, number, raise, run};
use crate::common::{resource, retryable, stale, token};

async fn protected(pool: &PgPool) {
    sql::migrate(pool).await.unwrap();
    run(pool, "CREATE TABLE files (path text PRIMARY KEY, body text)").await;
    by_path("files").apply(pool).await.unwrap();
}

async fn write(pool: &PgPool, number: u64, statement: &str) -> Result<(), AdmitError> {
    let mut tx = pool.begin().await?;
    sql::present(&mut tx, token(number)).await?;
    tx.execute(AssertSqlSafe(statement.to_owned())).await?;
    Ok(tx.commit().await?)
}

/// The server's table of locks has room for about 12,000 with its own settings.
#[tokio::test]
async fn one_transaction_writes_thirty_thousand_resources() {
    let server = PostgresServer::with(&["fsync=off"]);
    let pool = place::pool(server.database().await);
    protected(&pool).await;
    let insert = "INSERT INTO files SELECT i::text, '' FROM generate_series(1, 30000) AS i";
    write(&pool, 34, insert).await.unwrap();
    let update = "UPDATE files SET body = body || 'x'";
    for number in [34, 35] {
        write(&pool, number, update).await.unwrap();
    }
    stale(write(&pool, 34, update).await);
    let admit = "SELECT fencing_admit('others/' || i, 34) FROM generate_series(1, 30000) AS i";
    for _ in 0..2 {
        run(&pool, admit).await;
    }
    let marks = "SELECT count(*) FROM fencing_marks WHERE token = 35";
    assert_eq!(number(&pool, marks).await, 30_000);
}

/// Also those that it has not queued for.
#[tokio::test]
async fn it_keeps_newer_tokens_out_of_all_of_them() {
    let place = Place::empty().await;
    protected(&place.pool).await;
    let insert = "INSERT INTO files SELECT i::text, '' FROM generate_series(1, 100) AS i";
    write(&place.pool, 33, insert).await.unwrap();
    // The first contact of a token, and a later one.
    for _ in 0..2 {
        let mut tx = place.pool.begin().await.unwrap();
        sql::present(&mut tx, token(34)).await.unwrap();
        run(&mut *tx, "UPDATE files SET body = '34'").await;
        let queued = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
            AND pid = pg_backend_pid()";
        let queued = number(&mut *tx, queued).await;
        assert!((1..100).contains(&queued), "{queued}");
        let impatient = place.impatient();
        for number in [1, 50, 100] {
            let name = Resource::new(format!("files/{number}")).unwrap();
            retryable(sql::begin(&impatient, &name, token(35)).await);
            stale(sql::begin(&impatient, &name, token(32)).await);
        }
        tx.commit().await.unwrap();
    }
    for number in [1, 50, 100] {
        let name = Resource::new(format!("files/{number}")).unwrap();
        raise(&place.pool, &name, 35).await;
    }
    stale(write(&place.pool, 34, "UPDATE files SET body = '34'").await);
}

/// What a savepoint takes back is admitted anew: its locks are gone.
#[tokio::test]
async fn what_was_admitted_behind_a_savepoint_is_not_after_it() {
    let place = Place::empty().await;
    protected(&place.pool).await;
    write(&place.pool, 34, "INSERT INTO files VALUES ('a', '')").await.unwrap();
    let pool = PgPoolOptions::new()
        .acquire_timeout(Duration::from_secs(60))
        .connect_lazy_with(place.pool.connect_options().as_ref().clone());
    let mut tx = pool.begin().await.unwrap();
    sql::present(&mut tx, token(34)).await.unwrap();
    run(&mut *tx, "SAVEPOINT one; UPDATE files SET body = '34'; ROLLBACK TO SAVEPOINT one").await;
    sql::begin(&pool, &resource(), Token::new(35).unwrap()).await.unwrap().commit().await.unwrap();
    stale(attempt(&mut *tx, "UPDATE files SET body = '34'").await);
}

/// A transaction that has written with a token, and admits a newer one itself, does not write with the older one again.
#[tokio::test]
async fn what_was_admitted_before_a_raise_of_its_own_is_stale_after_it() {
    let place = Place::empty().await;
    protected(&place.pool).await;
    write(&place.pool, 33, "INSERT INTO files VALUES ('a', '')").await.unwrap();
    let mut tx = place.pool.begin().await.unwrap();
    sql::present(&mut tx, token(33)).await.unwrap();
    for body in ["one", "two"] {
        run(&mut *tx, &format!("UPDATE files SET body = '{body}'")).await;
    }
    sql::admit(&mut tx, &resource(), token(34)).await.unwrap();
    stale(attempt(&mut *tx, "UPDATE files SET body = 'three'").await);
}

/// Two fences in one database have marks of their own, also for one name.
#[tokio::test]
async fn what_one_fence_has_admitted_another_one_refuses() {
    let place = Place::empty().await;
    let schema = async |name: &'static str| {
        let options = (*place.pool.connect_options()).clone().options([("search_path", name)]);
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
        run(&pool, &format!("CREATE SCHEMA {name}")).await;
        protected(&pool).await;
        pool
    };
    let (one, other) = (schema("one").await, schema("other").await);
    for (pool, number) in [(&one, 33), (&other, 34)] {
        write(pool, number, "INSERT INTO files VALUES ('a', '')").await.unwrap();
    }
    let mut tx = one.begin().await.unwrap();
    sql::present(&mut tx, token(33)).await.unwrap();
    run(&mut *tx, "UPDATE one.files SET body = '33'").await;
    stale(attempt(&mut *tx, "UPDATE other.files SET body = '33'").await);
}
