//! A server that dies or hangs.

use super::place::{Db, served};
use crate::common::*;

pub fn service(pool: &Pool<Db>, budget: Duration) -> SqlLock<Db> {
    SqlLock::builder(pool.clone()).ttl(2 * PATIENT).budget(budget).build().unwrap()
}

/// A busy machine answers within it.
pub const PATIENT: Duration = Duration::from_secs(4);

#[tokio::test]
async fn when_the_server_is_killed_the_lease_is_lost_and_tokens_grow() {
    // With its own settings it keeps what it has committed.
    let (mut server, pool) = served(&[]).await;
    let lock = service(&pool, PATIENT);
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
    let (server, pool) = served(&[]).await;
    let lock = service(&pool, PATIENT);
    let lease = lock.acquire(&resource()).await.unwrap();
    let brief = service(&pool, PATIENT / 4);
    server.signal("STOP");
    for _ in 0..3 {
        // On a connection that there is, or on the way to a new one.
        let cause = fault(brief.try_acquire(&resource()).await);
        assert!(matches!(cause, Fault::TimedOut | Fault::Unreachable(_)), "{cause:?}");
    }
    assert_eq!(lease.lost().await, Loss::Expired);
    server.signal("CONT");
    // What ran after its caller had given up is taken back.
    let next = lock.acquire(&resource()).await.unwrap();
    assert!(next.token() > lease.token());
}
