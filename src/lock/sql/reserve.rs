use std::sync::OnceLock;

use sqlx::Pool;
use sqlx::pool::PoolConnection;
use tokio_util::task::AbortOnDropHandle;

use crate::database::Database;

/// One connection besides those of the application's pool, for renewals and releases, which must not wait until
/// the application is less busy. It is opened when the pool has none free, and stays until the pool is
/// closed or the lock service is dropped.
pub(super) struct Reserve<DB: Database>(OnceLock<(Pool<DB>, AbortOnDropHandle<()>)>);

impl<DB: Database> Reserve<DB> {
    pub(super) fn new() -> Reserve<DB> {
        Reserve(OnceLock::new())
    }

    /// Returns the connection as soon as it is free.
    pub(super) async fn acquire(&self, shared: &Pool<DB>) -> sqlx::Result<PoolConnection<DB>> {
        let (pool, _closes) = self.0.get_or_init(|| beside(shared));
        pool.acquire().await
    }
}

/// Returns the pool of the one connection, and the task that closes it with the other. Dropped, the task ends: its
/// handle would keep the pool open.
fn beside<DB: Database>(shared: &Pool<DB>) -> (Pool<DB>, AbortOnDropHandle<()>) {
    let options = shared.options().clone().min_connections(0).max_connections(1);
    let options = options.idle_timeout(None);
    let pool = options.connect_lazy_with((*shared.connect_options()).clone());
    let (closed, own) = (shared.close_event(), pool.clone());
    let closes = tokio::spawn(async move {
        closed.await;
        own.close().await;
    });
    (pool, AbortOnDropHandle::new(closes))
}
