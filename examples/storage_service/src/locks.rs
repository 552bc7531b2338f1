use std::sync::Arc;
use std::time::Duration;

use fencing::Redlock;
use fencing::lock::redlock::{BuildError, MemoryNode};
use fencing::lock::sql::{Database, SqlLock};
use fencing::lock::{AcquireError, Lease, Lock};
use fencing::resource::Resource;
use sqlx::Pool;

/// How long a lease lasts if its client does not say.
const TTL: Duration = Duration::from_secs(5);

/// Returns a lock service on Redis nodes; without any, on five in this process. A client that
/// sleeps shall lose its lease: nobody renews for it.
pub fn on_nodes(urls: &[&str]) -> Result<Arc<dyn Lock>, BuildError> {
    let builder = match urls {
        [] => Redlock::builder()
            .nodes((1..=5).map(|number| MemoryNode::new(format!("memory-{number}")))),
        urls => Redlock::builder().redis(urls),
    };
    Ok(Arc::new(builder.renew(false).ttl(TTL).build()?))
}

/// Returns a lock service in a database.
pub fn in_database<DB: Database>(pool: &Pool<DB>) -> Result<Arc<dyn Lock>, BuildError> {
    Ok(Arc::new(SqlLock::builder(pool.clone()).renew(false).ttl(TTL).build()?))
}

/// Makes one attempt, or as many as fit into `wait`.
pub async fn acquire(
    lock: &dyn Lock,
    resource: &Resource,
    wait: Duration,
) -> Result<Lease, LeaseError> {
    if wait.is_zero() {
        return Ok(lock.try_acquire(resource).await?);
    }
    Ok(lock.with_wait(wait)?.acquire(resource).await?)
}

/// Why there is no lease.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Acquire(#[from] AcquireError),
}
