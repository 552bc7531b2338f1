//! Leases with fencing tokens on a ZooKeeper ensemble.
//!
//! **Fencing.** A token is the base of the namespace plus the zxid at which the lock's node was created. The first
//! client sets the base from its clock; only an operator raises it. An ensemble that is restored from a backup counts
//! from an earlier zxid. A client that has seen a larger token refuses a smaller one, but a new process can't know:
//! stop the clients, and raise the tokens above those that were granted
//! ([`Operator::raise`](crate::lock::Operator::raise)).
//!
//! | node, below the chroot and the namespace | is |
//! |---|---|
//! | `base` | what tokens count from |
//! | `l/{resource}/x` | the exclusive lock: its owner, and its session. Ephemeral, as all that follow |
//! | `l/{resource}/s-{owner}` | a part of a shared lock |
//! | `l/{resource}/w` | a waiting writer: no client joins the shared lock |
//! | `l/{resource}/c-{owner}` | a change of a lock whose lease several processes have |
//! | `q/{resource}/{owner}-{number}` | a place in the line of waiting clients |
//! | `s/{owner}` | a session; each renewal writes it |
//! | `closed` | no lock is granted yet: the tokens were raised |
//!
//! A lock service has one session for each runtime and TTL. Its timeout is 4/3 of the TTL with its lock-delay: the
//! leader counts it from the last ping that it has heard of (one each half tick), and a lease counts from its renewal.
//! The `maxSessionTimeout` of the servers must permit it: with 40 s, the default, a TTL of 30 s. Keep half a `tickTime`
//! and the budget together below a third of the TTL. Acquiring and releasing take one round trip each. A renewal is a
//! write, on which a majority agrees, and a read of each lease's own node after it: leases that are due together share
//! the write. A ping proves nothing, as the connected server answers it alone. When the session ends, all its leases
//! are lost.
//!
//! With a [ticket](crate::lock::LeaseTicket) another process goes on with a lease: its first renewal moves the lock to
//! its own session. One write removes the node and creates it again, so that no client finds it missing; it keeps the
//! zxid that the token counts from. The release of a lease that has a ticket takes two round trips.
//!
//! The servers free the locks of a process that died when its session times out. A lock that is released early under
//! `lock_at_least_for` stays held for the rest; if the process ends before that, until the session times out.
//!
//! ZooKeeper 3.5 or newer. There is no TLS: keep the servers in a network that you trust. With a user in the URL, only
//! that user can change the nodes (digest).

mod backend;
mod change;
mod claim;
mod contents;
mod fault;
mod line;
mod operator;
mod paths;
mod session;
mod url;

use std::sync::Arc;
use std::time::Duration;

use super::engine::builder::EngineBuilder;
use super::engine::sessions::Sessions;
use super::service::LockService;
use session::Ensemble;

pub use super::settings::BuildError;

/// A lock service on a ZooKeeper ensemble. Clones share the sessions and the local queues.
pub type ZookeeperLock = LockService<Arc<Sessions<Ensemble>>>;

impl ZookeeperLock {
    /// Returns a builder, which takes the settings. The URL is
    /// `zookeeper://[user:password@]a:2181,b:2181/chroot`.
    pub fn builder(url: impl Into<String>) -> ZookeeperLockBuilder {
        EngineBuilder::over(url.into(), 4, Duration::from_millis(10))
    }
}

/// Builds a [`ZookeeperLock`].
pub type ZookeeperLockBuilder = EngineBuilder<Arc<Sessions<Ensemble>>>;
