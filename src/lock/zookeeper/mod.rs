//! Leases with fencing tokens on a ZooKeeper ensemble.

mod backend;
mod builder;
mod drains;
mod fault;
mod held;
mod locks;
mod paths;
mod renewals;
mod session;
mod sessions;
mod url;

use std::sync::Arc;

use super::service::LockService;
use backend::Ensemble;

pub use super::settings::BuildError;
pub use builder::ZookeeperLockBuilder;

/// A lock service on a ZooKeeper ensemble. Clones share the sessions and the local queues.
pub type ZookeeperLock = LockService<Arc<Ensemble>>;

impl ZookeeperLock {
    /// Returns a builder: what you set before the first lease. The URL is
    /// `zookeeper://[user:password@]a:2181,b:2181/chroot`.
    pub fn builder(url: impl Into<String>) -> ZookeeperLockBuilder {
        ZookeeperLockBuilder::new(url.into())
    }
}
