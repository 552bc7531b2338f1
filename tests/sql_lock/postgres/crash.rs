//! A server that dies, hangs, or forgets.

use std::time::Duration;

use fencing::lock::Loss;
use fencing::lock::sql::SqlLock;
use fencing::sql;
use fencing_protocol::Fault;
use sqlx::PgPool;

use super::place::pool;
use crate::common::{fault, resource};
use support::postgres::PostgresServer;

fn service(pool: &PgPool) -> SqlLock<sqlx::Postgres> {
    let lock = SqlLock::builder(pool.clone()).ttl(Duration::from_secs(3));
    lock.budget(Duration::from_secs(1)).build().unwrap()
}

#[tokio::test]
async fn when_the_server_is_killed_the_lease_is_lost_and_tokens_grow() {
    let mut server = PostgresServer::start();
    let pool = pool(server.database().await);
    sql::migrate(&pool).await.unwrap();
    let lock = service(&pool);
    let lease = lock.acquire(&resource()).await.unwrap();
    server.kill();
    let cause = fault(lock.try_acquire(&resource()).await);
    assert!(matches!(cause, Fault::Unreachable(_) | Fault::Disconnected(_)), "{cause:?}");
    assert_eq!(lease.lost().await, Loss::Expired);
    server.restart();
    let next = lock.acquire(&resource()).await.unwrap();
    assert!(next.token() > lease.token());
}

#[tokio::test]
async fn a_server_that_hangs_holds_nobody_up() {
    let server = PostgresServer::start();
    let pool = pool(server.database().await);
    sql::migrate(&pool).await.unwrap();
    let lock = service(&pool);
    let lease = lock.acquire(&resource()).await.unwrap();
    server.signal("STOP");
    for _ in 0..3 {
        // On a connection that there is, or on the way to a new one.
        let cause = fault(lock.try_acquire(&resource()).await);
        assert!(matches!(cause, Fault::TimedOut | Fault::Unreachable(_)), "{cause:?}");
    }
    assert_eq!(lease.lost().await, Loss::Expired);
    server.signal("CONT");
    // What ran after its caller had given up is taken back.
    let next = lock.acquire(&resource()).await.unwrap();
    assert!(next.token() > lease.token());
}

#[tokio::test]
async fn a_grant_is_on_disk_even_where_commits_are_not() {
    let mut server = PostgresServer::with(&["synchronous_commit=off", "wal_writer_delay=10s"]);
    let pool = pool(server.database().await);
    sql::migrate(&pool).await.unwrap();
    sqlx::query("CREATE TABLE other (x int)").execute(&pool).await.unwrap();
    sqlx::query("CHECKPOINT").execute(&pool).await.unwrap();
    let lock = service(&pool);
    let mut last = 0;
    for round in 0..2 {
        let lease = lock.acquire(&resource()).await.unwrap();
        assert!(lease.token().get() > last, "round {round}: {} after {last}", lease.token());
        last = lease.token().get();
        server.kill();
        server.restart();
        drop(lease);
        let _ = sqlx::query("SELECT 1").execute(&pool).await;
    }
}
