//! A replica that lags is promoted: the last lease is lost, and its holder is not.

use fencing::sql::AdmitError;

use super::Server;
use super::place::{Db, pool};
use super::replica::Replica;
use crate::common::*;

async fn begins(pool: &Pool<Db>, resource: &Resource, token: Token) -> Result<(), AdmitError> {
    Ok(sql::begin(pool, resource, token).await?.commit().await?)
}

#[tokio::test]
async fn a_token_that_the_failover_lost_is_not_granted_again() {
    for shared in [false, true] {
        let mut primary = Server::start();
        let old = pool(primary.database().await);
        sql::migrate(&old).await.unwrap();
        let lock: SqlLock<Db> = SqlLock::builder(old.clone()).ttl(LONG).build().unwrap();
        let kept = lock.acquire(&named("kept")).await.unwrap();
        release(lock.acquire(&resource()).await.unwrap()).await;
        let replica = Replica::of(&primary, &old).await;
        let lost = match shared {
            true => lock.acquire_shared(&resource()).await.unwrap().token(),
            false => lock.acquire(&resource()).await.unwrap().token(),
        };
        replica.promote(&mut primary).await;
        let new = &replica.pool;
        let lock: SqlLock<Db> = SqlLock::new(new.clone());
        let next = if shared {
            // With a mark, the floor alone does not count for those who join others.
            begins(new, &resource(), Token::MIN).await.unwrap();
            lock.acquire_shared(&resource()).await.unwrap().token()
        } else {
            let first = lock.acquire(&resource()).await.unwrap();
            let token = first.token();
            release(first).await;
            // It noticed that once.
            let second = lock.acquire(&resource()).await.unwrap().token();
            assert_eq!(second.get(), token.get() + 1);
            token
        };
        assert!(next > lost, "{next} after {lost}");
        begins(new, &resource(), next).await.unwrap();
        let refused = begins(new, &resource(), lost).await;
        assert!(matches!(refused, Err(AdmitError::Stale(_))), "{refused:?}");
        // A lease that the replica has goes on.
        begins(new, &named("kept"), kept.token()).await.unwrap();
    }
}
