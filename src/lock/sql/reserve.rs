use std::sync::OnceLock;

use sqlx::Pool;
use sqlx::pool::PoolConnection;
use tokio::task::AbortHandle;

use crate::database::Database;

/// One connection besides those of the application's pool, for renewals and releases, which must not wait until
/// the application is less busy. It is opened when the pool has none free, and stays until the pool is
/// closed or the lock service is dropped.
pub(super) struct Reserve<DB: Database>(OnceLock<ReservePool<DB>>);

struct ReservePool<DB: Database> {
    pool: Pool<DB>,
    closes: AbortHandle,
}

impl<DB: Database> Reserve<DB> {
    pub(super) fn new() -> Reserve<DB> {
        Reserve(OnceLock::new())
    }

    /// Returns the connection as soon as it is free.
    pub(super) async fn acquire(&self, shared: &Pool<DB>) -> sqlx::Result<PoolConnection<DB>> {
        self.0.get_or_init(|| ReservePool::beside(shared)).pool.acquire().await
    }
}

impl<DB: Database> ReservePool<DB> {
    fn beside(shared: &Pool<DB>) -> ReservePool<DB> {
        let options = shared.options().clone().min_connections(0).max_connections(1);
        let options = options.idle_timeout(None);
        let pool = options.connect_lazy_with((*shared.connect_options()).clone());
        let (closed, own) = (shared.close_event(), pool.clone());
        let closes = tokio::spawn(async move {
            closed.await;
            own.close().await;
        });
        ReservePool { pool, closes: closes.abort_handle() }
    }
}

impl<DB: Database> Drop for ReservePool<DB> {
    fn drop(&mut self) {
        // Its handle would keep the pool open.
        self.closes.abort();
    }
}
