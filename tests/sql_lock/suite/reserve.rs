//! The one connection that the lock service keeps besides those of the application's pool.

use super::*;

/// Waits until the database has so many sessions, where it says so.
async fn sessions_become(expected: i64, watcher: &Pool<Db>) {
    let Some(count) = words::SESSIONS else { return };
    until(&format!("{expected} sessions"), async || {
        let found = sqlx::query_scalar::<_, i64>(count).fetch_one(watcher).await.unwrap();
        found == expected
    })
    .await;
}

#[tokio::test]
async fn it_ends_with_the_pool_or_with_the_last_clone() {
    for closes_pool in [true, false] {
        let place = ready().await;
        place.pool.close().await;
        let (watcher, pool) = (single(&place.pool), single(&place.pool));
        sessions_become(1, &watcher).await;
        let lock = short(&pool, Duration::from_secs(8)).renew(false).build().unwrap();
        let lease = lock.acquire(&resource()).await.unwrap();
        let busy = pool.acquire().await.unwrap();
        lease.renew().await.unwrap();
        sessions_become(3, &watcher).await;
        drop(busy);
        if closes_pool {
            pool.close().await;
            sessions_become(1, &watcher).await;
            let fault = fault(lock.try_acquire(&resource()).await);
            assert!(fault.to_string().contains("the pool is closed"), "{fault}");
            lease.release().await.unwrap_err();
        } else {
            release(lease).await;
            drop((lock.clone(), lock));
            sessions_become(2, &watcher).await;
        }
    }
}

/// The pool of a service that is built elsewhere was built where a runtime was.
#[tokio::test]
async fn a_service_is_built_without_a_runtime() {
    let place = ready().await;
    let pool = single(&place.pool);
    let lock = std::thread::spawn(move || SqlLock::new(pool)).join().unwrap();
    drop(lock.acquire(&resource()).await.unwrap());
}
