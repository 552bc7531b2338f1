//! Redlock with a fencing token: drives the protocol over N independent nodes.
//!
//! ```no_run
//! # #[cfg(feature = "redis")]
//! # async fn work() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use fencing::{Redlock, Resource};
//!
//! let redlock = Redlock::builder()
//!     .redis(["redis://a:6379", "redis://b:6379", "redis://c:6379"])
//!     .ttl(Duration::from_secs(10))
//!     .build()?;
//! let invoice = Resource::new("invoice/42")?;
//! let lease = redlock.acquire(&invoice).await?; // waits; try_acquire asks once
//! lease.run(async { /* give lease.token() to every write */ }).await?;
//! lease.release().await?;
//! # Ok(())
//! # }
//! ```

mod answers;
mod backend;
mod builder;
mod connection;
mod context;
mod driver;
mod drivers;
mod memory;
mod node;
mod nodes;
mod operator;
mod readmission;
#[cfg(feature = "redis")]
mod redis;
mod send_queue;
#[cfg(test)]
mod tests;
mod waiting_list;

use std::sync::Arc;

use nodes::Nodes;

use super::service::LockService;

pub use super::service::health::Health;
pub use super::settings::BuildError;
pub use super::wait::release_notifications::{Notice, ReleaseListener};
#[cfg(feature = "redis")]
pub use crate::server_info::ServerInfo;
pub use builder::RedlockBuilder;
pub use fencing_protocol::{Fleet, FleetError};
pub use memory::MemoryNode;
pub use node::{Group, Node, Session};
pub use operator::{FleetOperator, NodeOutcomes, OperatorError};
#[cfg(feature = "redis")]
pub use redis::{Forced, NodeLock, NodeReport, NodeView, RedisNode, node_urls};

/// A lock service over N independent nodes.
///
/// Clones share the nodes, their connections, and the local queues.
///
/// **Fork.** A process that forks without `exec` must not use it in the child, and must not drop leases there: the two
/// would share the connections, and the child has no runtime that drives them. Build another one after the fork.
pub type Redlock = LockService<Arc<Nodes>>;

impl Redlock {
    /// Returns what an operator may do to the nodes: start them, bring them back, move to another list.
    #[must_use]
    pub fn operator(&self) -> FleetOperator {
        FleetOperator { nodes: Arc::clone(&self.backend) }
    }
}
