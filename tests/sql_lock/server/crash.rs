//! A server that dies or hangs. A replica that lags is promoted: the last lease is lost, and its holder is not.

use fencing::sql::AdmitError;

use super::place::{Db, served};
use super::suite::with_budget;
use super::words::Replica;
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
    assert!(matches!(cause, Fault::Unreachable(_) | Fault::Disconnected(_) | Fault::TimedOut), "{cause:?}");
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
    assert!(lock.acquire(&resource()).await.unwrap().token() > lease.token());
}

async fn begins(pool: &Pool<Db>, resource: &Resource, token: Token) -> Result<(), AdmitError> {
    Ok(sql::begin(pool, resource, token).await?.commit().await?)
}

#[tokio::test]
async fn a_token_that_the_failover_lost_is_not_granted_again() {
    let (mut primary, old) = served(&[]).await;
    let lock = with_budget(&old, LONG / 3);
    let kept = lock.acquire(&named("kept")).await.unwrap();
    let names = [named("shared"), resource()];
    for name in &names {
        release(lock.acquire(name).await.unwrap()).await;
    }
    let replica = Replica::of(&primary, &old).await;
    let part = lock.acquire_shared(&names[0]).await.unwrap();
    let alone = lock.acquire(&names[1]).await.unwrap();
    replica.promote(&mut primary).await;
    let new = &replica.pool;
    let lock = with_budget(new, LONG / 3);
    // With a mark, the floor alone does not count for those who join others.
    begins(new, &names[0], Token::MIN).await.unwrap();
    let next_part = lock.acquire_shared(&names[0]).await.unwrap().token();
    let first = lock.acquire(&names[1]).await.unwrap();
    let next = first.token();
    release(first).await;
    // It noticed that once: another jump would be a million. An attempt that was granted late took a token.
    let second = lock.acquire(&names[1]).await.unwrap().token();
    assert!((1..100).contains(&(second.get() - next.get())), "{second} after {next}");
    for (name, lost, next) in [(&names[0], part.token(), next_part), (&names[1], alone.token(), next)] {
        assert!(next > lost, "{next} after {lost}");
        begins(new, name, next).await.unwrap();
        let refused = begins(new, name, lost).await;
        assert!(matches!(refused, Err(AdmitError::Stale(_))), "{refused:?}");
    }
    // A lease that the replica has goes on.
    begins(new, &named("kept"), kept.token()).await.unwrap();
}
