//! A server that dies or hangs.

use super::Server;
use super::place::{Db, pool};
use crate::common::*;

pub fn service(pool: &Pool<Db>) -> SqlLock<Db> {
    let lock = SqlLock::builder(pool.clone()).ttl(Duration::from_secs(3));
    lock.budget(Duration::from_secs(1)).build().unwrap()
}

#[tokio::test]
async fn when_the_server_is_killed_the_lease_is_lost_and_tokens_grow() {
    // With its own settings it keeps what it has committed.
    let mut server = Server::start();
    let pool = pool(server.database().await);
    sql::migrate(&pool).await.unwrap();
    let lock = service(&pool);
    let lease = lock.acquire(&resource()).await.unwrap();
    server.kill();
    let cause = fault(lock.try_acquire(&resource()).await);
    assert!(matches!(cause, Fault::Unreachable(_) | Fault::Disconnected(_)), "{cause:?}");
    assert_eq!(lease.lost().await, Loss::Expired);
    server.restart();
    assert!(lock.acquire(&resource()).await.unwrap().token() > lease.token());
}

#[tokio::test]
async fn a_server_that_hangs_holds_nobody_up() {
    let server = Server::start();
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
