use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

/// Returns a pool with one connection, for all that this process writes: SQLite has one writer at a
/// time. Later writers wait for the connection, in their order, instead of sleeping until the file may be free
/// (`busy_timeout`); with eight writers that is faster. Read through a pool of your own.
///
/// It opens no connection yet. Do not ask this pool for a connection within one of its transactions: that transaction
/// has the only one. A write waits for writers in other processes as long as `busy_timeout` says.
pub fn single_writer(options: SqliteConnectOptions) -> SqlitePool {
    SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None).connect_lazy_with(options)
}
