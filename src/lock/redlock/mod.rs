//! Redlock with a fencing token: the driver of the protocol in `src/protocol`.

mod builder;
mod distinct_servers;
mod health;
mod lane;
mod memory;
mod node;
mod nodes;
mod notices;
mod operator;
mod outstanding;
mod readmission;
#[cfg(feature = "redis")]
mod redis;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nodes::Nodes;
use tokio::time::{Instant, sleep};

use super::attempt::attempt;
use super::queues::Queues;
use super::settings::Settings;
use super::{AcquireError, Lease, Lock};
use crate::protocol::Fault;

pub use crate::protocol::{Fleet, FleetError};
use crate::resource::Resource;

pub use super::{BuildError, Health};
pub use builder::RedlockBuilder;
pub use memory::MemoryNode;
pub use node::{Node, Session};
pub use operator::{AdmitNodes, Operator, OperatorError};
#[cfg(feature = "redis")]
pub use redis::{NodeReport, RedisNode};

/// A lock service over N independent nodes.
///
/// Clones share the nodes, their connections, and the local queues.
#[derive(Clone)]
pub struct Redlock {
    nodes: Arc<Nodes>,
    queues: Arc<Queues>,
    settings: Settings,
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock")
            .field("nodes", &self.nodes.size())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Redlock {
    /// What to set before the first lease.
    pub fn builder() -> RedlockBuilder {
        RedlockBuilder::default()
    }

    /// The same lock service with another TTL: nodes, connections and queues are shared.
    ///
    /// # Errors
    /// [`BuildError`] if the TTL is out of bounds, or too short for the node budget or drift.
    pub fn with_ttl(&self, ttl: Duration) -> Result<Redlock, BuildError> {
        self.with(Settings { ttl, ..self.settings })
    }

    /// The same lock service with another wait limit of [`acquire`](Redlock::acquire).
    ///
    /// # Errors
    /// [`BuildError`] if it is longer than a year.
    pub fn with_wait(&self, wait: Duration) -> Result<Redlock, BuildError> {
        self.with(Settings { wait, ..self.settings })
    }

    /// Asks all nodes how they stand, within the node budget. Nodes that are not admitted
    /// are brought back in the background, as after an acquisition.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn health(&self) -> Health {
        self.nodes.health().await
    }

    /// What an operator may do to the nodes: start them, bring them back, move to another list.
    #[must_use]
    pub fn operator(&self) -> Operator {
        Operator::of(&self.nodes)
    }

    /// Waits until all that this client has sent is answered, or was given up: also what a
    /// dropped attempt or lease has released, and a node that is being brought back. For the
    /// end of a program.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn settle(&self) {
        self.nodes.outstanding().over().await;
    }

    fn with(&self, settings: Settings) -> Result<Redlock, BuildError> {
        settings.check(builder::NODE_BUDGET)?;
        self.nodes.outlast(settings.longest());
        Ok(Redlock { settings, ..self.clone() })
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
        self.queues.acquire(resource, &self.settings, || self.attempt(resource)).await
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
        let vote = self.nodes.attempt(resource, self.settings.terms());
        attempt(resource, self.nodes.clock(), &self.settings, vote).await
    }
}

/// Too few nodes have a vote yet, and none needs longer than a first start takes.
fn first_start(error: &AcquireError) -> bool {
    let AcquireError::NoQuorum { causes, .. } = error else { return false };
    !causes.is_empty()
        && causes.iter().all(|cause| match cause.cause {
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
