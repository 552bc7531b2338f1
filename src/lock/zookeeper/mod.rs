//! Leases with fencing tokens on a ZooKeeper ensemble.
//!
//! A token is the base of the namespace + the zxid with which the lock's node was made. The first client sets the base
//! from its clock; only an operator raises it. A client that has seen a larger token refuses a smaller one: the ensemble
//! was restored from a backup then, and `raise` is needed. A new client can't know that; the fence refuses its token.
//!
//! | node, below the chroot and the namespace | is |
//! |---|---|
//! | `base` | what tokens count from |
//! | `l/{resource}/x` | who holds the lock alone: ephemeral, as all that follow |
//! | `l/{resource}/s-{owner}` | one of those who share it |
//! | `l/{resource}/w` | a waiting client: nobody joins those who share the lock |
//! | `q/{resource}/{owner}-{number}` | a place in the line of waiting clients |
//! | `s/{owner}` | a session; each renewal writes it |
//! | `closed` | no lock is granted: the tokens were raised a moment ago |
//!
//! A lock service has one session for each runtime and TTL. Its timeout is the TTL and the lock-delay, which the
//! `maxSessionTimeout` of the servers must permit (40 s by default). To acquire and to release take one round trip each. A
//! renewal is a write, which a majority agrees on, and behind it a read of each lease's own node: the leases that are due
//! together share the write. A ping proves nothing, as the connected server answers it alone. When the session ends, all
//! its leases are lost.
//!
//! The servers free the locks of a process that died when its session times out. A lock that is released early under
//! `lock_at_least_for` stays for the rest; if the process ends before, until the session times out.
//!
//! ZooKeeper 3.5 or newer. There is no TLS: keep the servers in a network that you trust. With a user in the URL, only
//! that user can change the nodes (digest).

mod backend;
mod builder;
mod drains;
mod fault;
mod held;
mod line;
mod locks;
mod operator;
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
pub(in crate::lock) use operator::ZookeeperOperator;

/// A lock service on a ZooKeeper ensemble. Clones share the sessions and the local queues.
pub type ZookeeperLock = LockService<Arc<Ensemble>>;

impl ZookeeperLock {
    /// Returns a builder: what you set before the first lease. The URL is
    /// `zookeeper://[user:password@]a:2181,b:2181/chroot`.
    pub fn builder(url: impl Into<String>) -> ZookeeperLockBuilder {
        ZookeeperLockBuilder::new(url.into())
    }
}
