use std::sync::OnceLock;

use sqlx::Pool;
use sqlx::pool::PoolConnection;
use tokio::task::AbortHandle;

use crate::database::Database;

/// One connection besides those of the application's pool, for what must not wait until the
/// application is less busy. It is opened where the pool has none free, and stays until the pool is
/// closed or the lock service is gone.
pub(super) struct Reserve<DB: Database>(OnceLock<Opened<DB>>);

struct Opened<DB: Database> {
    pool: Pool<DB>,
    closes: AbortHandle,
}

impl<DB: Database> Reserve<DB> {
    pub(super) fn new() -> Reserve<DB> {
        Reserve(OnceLock::new())
    }

    /// Returns the connection, when nobody else has it.
    pub(super) async fn acquire(&self, shared: &Pool<DB>) -> sqlx::Result<PoolConnection<DB>> {
        self.0.get_or_init(|| Opened::beside(shared)).pool.acquire().await
    }
}

impl<DB: Database> Opened<DB> {
    fn beside(shared: &Pool<DB>) -> Opened<DB> {
        let options = shared.options().clone().min_connections(0).max_connections(1);
        let options = options.idle_timeout(None);
        let pool = options.connect_lazy_with((*shared.connect_options()).clone());
        let (closed, own) = (shared.close_event(), pool.clone());
        let closes = tokio::spawn(async move {
            closed.await;
            own.close().await;
        });
        Opened { pool, closes: closes.abort_handle() }
    }
}

impl<DB: Database> Drop for Opened<DB> {
    fn drop(&mut self) {
        // It has a handle of the pool, which would stay open.
        self.closes.abort();
    }
}
