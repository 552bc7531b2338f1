//! A replica that lags is promoted: the last lease is lost, and its holder is not.

use fencing::sql::AdmitError;

use super::place::{Db, served};
use super::replica::Replica;
use crate::common::*;

async fn begins(pool: &Pool<Db>, resource: &Resource, token: Token) -> Result<(), AdmitError> {
    Ok(sql::begin(pool, resource, token).await?.commit().await?)
}

#[tokio::test]
async fn a_token_that_the_failover_lost_is_not_granted_again() {
    let (mut primary, old) = served(&[]).await;
    let lock: SqlLock<Db> = SqlLock::builder(old.clone()).ttl(LONG).build().unwrap();
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
    let lock: SqlLock<Db> = SqlLock::new(new.clone());
    // With a mark, the floor alone does not count for those who join others.
    begins(new, &names[0], Token::MIN).await.unwrap();
    let next_part = lock.acquire_shared(&names[0]).await.unwrap().token();
    let first = lock.acquire(&names[1]).await.unwrap();
    let next = first.token();
    release(first).await;
    // It noticed that once.
    let second = lock.acquire(&names[1]).await.unwrap().token();
    assert_eq!(second.get(), next.get() + 1);
    for (name, lost, next) in
        [(&names[0], part.token(), next_part), (&names[1], alone.token(), next)]
    {
        assert!(next > lost, "{next} after {lost}");
        begins(new, name, next).await.unwrap();
        let refused = begins(new, name, lost).await;
        assert!(matches!(refused, Err(AdmitError::Stale(_))), "{refused:?}");
    }
    // A lease that the replica has goes on.
    begins(new, &named("kept"), kept.token()).await.unwrap();
}
