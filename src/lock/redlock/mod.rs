//! Redlock with a fencing token: the driver of the law in [`quorum`](crate::quorum).

mod builder;
mod fleet;
mod lane;
mod memory;
mod node;
#[cfg(feature = "redis")]
mod redis;
mod steward;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fleet::{Fleet, Terms};
use tokio::time::{Instant, sleep, timeout_at};

use super::lease::Keeping;
use super::sleep::jitter;
use super::waiting::Queues;
use super::{AcquireError, Lease, Lock};
use crate::Resource;
use crate::quorum::Fault;

pub use builder::{BuildError, RedlockBuilder};
pub use memory::MemoryNode;
pub use node::{Node, Session};
#[cfg(feature = "redis")]
pub use redis::RedisNode;

/// A lock service over N independent nodes.
///
/// Clones share the nodes, their connections, and the local queues.
#[derive(Clone)]
pub struct Redlock {
    fleet: Arc<Fleet>,
    queues: Arc<Queues>,
    terms: Terms,
    keeping: Keeping,
    retry_delay: Duration,
    wait: Duration,
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock")
            .field("nodes", &self.fleet.size())
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}

impl Redlock {
    /// What to set before the first lease.
    pub fn builder() -> RedlockBuilder {
        RedlockBuilder::default()
    }

    /// Acquires the lease of `resource`, waiting in a fair local queue and then for the
    /// holder, up to the wait limit.
    ///
    /// # Errors
    /// [`AcquireError`] of the last attempt.
    ///
    /// # Cancel safety
    /// Dropped at any point, it leaves no lock behind for longer than the TTL, and
    /// releases what it can.
    pub async fn acquire(&self, resource: &Resource) -> Result<Lease, AcquireError> {
        let end = Instant::now() + self.wait;
        let queue = self.queues.of(resource);
        // Whoever waited here in vain asks once for itself, to tell held from down.
        let Ok(_turn) = timeout_at(end, queue.lock()).await else {
            return self.attempt(resource).await;
        };
        loop {
            let error = match self.attempt(resource).await {
                Ok(lease) => return Ok(lease),
                Err(error) => error,
            };
            let pause = self.retry_delay / 2 + jitter(self.retry_delay);
            if Instant::now() + pause >= end {
                return Err(error);
            }
            sleep(pause).await;
        }
    }

    /// Acquires the lease of `resource` in one attempt. Only a fleet that starts for the
    /// first time is waited for, about a second.
    ///
    /// # Errors
    /// [`AcquireError`].
    ///
    /// # Cancel safety
    /// As for [`acquire`](Redlock::acquire).
    pub async fn try_acquire(&self, resource: &Resource) -> Result<Lease, AcquireError> {
        const FIRST_START: Duration = Duration::from_millis(1500);
        let end = Instant::now() + FIRST_START;
        loop {
            match self.attempt(resource).await {
                Err(error) if first_start(&error) && Instant::now() < end => {
                    sleep(Duration::from_millis(20)).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn attempt(&self, resource: &Resource) -> Result<Lease, AcquireError> {
        let grant = self.fleet.attempt(resource, self.terms).await?;
        let clock = Arc::clone(self.fleet.clock());
        Ok(Lease::new(resource.clone(), grant, clock, self.keeping))
    }
}

/// No node has a vote yet, and none needs longer than a first start takes.
fn first_start(error: &AcquireError) -> bool {
    let AcquireError::NoQuorum { granted: 0, causes, .. } = error else { return false };
    causes.iter().all(|cause| match cause.cause {
        Fault::NotAdmitted => true,
        Fault::Quarantined(remaining) => remaining <= Duration::from_secs(1),
        _ => false,
    })
}

impl Lock for Redlock {
    async fn acquire(&self, resource: &Resource) -> Result<Lease, AcquireError> {
        Redlock::acquire(self, resource).await
    }

    async fn try_acquire(&self, resource: &Resource) -> Result<Lease, AcquireError> {
        Redlock::try_acquire(self, resource).await
    }
}
