//! A lease with a fencing token, kept in an etcd cluster that you have already.
//!
//! ```no_run
//! # async fn work() -> Result<(), Box<dyn std::error::Error>> {
//! use fencing::{Resource, lock::etcd::EtcdLock};
//!
//! let lock = EtcdLock::builder("etcd://user:password@a:2379,b:2379,c:2379").build()?;
//! let invoice = Resource::new("invoice/42")?;
//! let lease = lock.acquire(&invoice).await?;
//! lease.run(async { /* give lease.token() to every write */ }).await?;
//! lease.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! With `etcds://a,b,c?ca=ca.pem&cert=me.pem&key=me.key` the connections use TLS. Without `ca` the certificates of the
//! system count; `cert` and `key` are those of the client, if the members ask for one.
//!
//! **Fencing.** A token is the base in the key `{namespace}/base` plus the revision of the transaction that acquired,
//! so tokens grow across all resources for as long as the cluster forgets nothing. The first client sets the base from
//! its clock, so that tokens are larger than those of Redis nodes before; only an operator raises it. A cluster that is
//! restored from a backup counts from an earlier revision. A client that has seen a larger token refuses a smaller
//! one, but a new process can't know: stop the clients, raise the tokens above those that were granted
//! ([`Operator::raise`](crate::lock::Operator::raise)), and start them again.
//!
//! **Exclusion** depends on the rates of clocks: the client counts a lease from before its request, and etcd keeps the
//! lock for a third of the TTL longer. Below etcd 3.5.13, a leader that was stopped for longer than the TTL may revoke
//! an etcd lease that has been renewed since, and another client gets the lock. A watch on the session's key then ends
//! the lease, usually within milliseconds; until then two leases are valid, and the token distinguishes them.
//!
//! All leases of a service with one TTL are on one etcd lease, its session, and one renewal of two round trips serves
//! them. An acquisition and a release are one transaction each. A request whose answer is lost may take effect later.
//! No lease is granted for it: the session deletes its locks, or prevents it from taking effect. While the quota of a
//! member is exceeded, it cannot do so until the alarm is disarmed. At most 127 resources are acquired with one call.
//! The shortest TTL is 2 s. A lock that is released early under `lock_at_least_for` stays held on an etcd lease of its
//! own; if the process ends before the rest does, for a few seconds longer.
//!
//! | key | what it is |
//! |---|---|
//! | `{ns}/l/{resource}\0w` | an exclusive lock: its owner, the holder's name, and for how many milliseconds it is held at most |
//! | `{ns}/l/{resource}\0r{owner}` | a part of a shared lock; `{ns}/g/{resource}` is its group, `{ns}/d/{resource}` closes it |
//! | `{ns}/q/{resource}\0{number}` | a place in the line of waiting clients |
//! | `{ns}/s/{lease}` | the sentinel of a session |
//! | `{ns}/base`, `{ns}/ttl` | what is added to revisions, and the longest etcd lease: the only keys without a lease |
//! | `{ns}/closed` | no lock is granted yet: the tokens were raised |

mod backend;
mod claim;
mod client;
mod cluster;
mod fault;
mod keys;
mod line;
mod messages;
mod operator;
mod session;
mod upkeep;
mod url;

use std::sync::Arc;
use std::time::Duration;

use super::engine::builder::EngineBuilder;
use super::engine::sessions::Sessions;
use super::service::LockService;
use cluster::Cluster;
use session::MIN_SECONDS;

pub use super::settings::BuildError;

/// A lock service in an etcd cluster. Clones share its connections, its sessions and the local queues.
pub type EtcdLock = LockService<Arc<Sessions<Cluster>>>;

impl EtcdLock {
    /// Returns a builder, which takes the settings. The URL is `etcd://a:2379,b:2379,c:2379`, or
    /// `etcds://...`.
    pub fn builder(url: impl Into<String>) -> EtcdLockBuilder {
        EngineBuilder::over(url.into(), 3, Duration::from_secs(MIN_SECONDS))
    }
}

/// Builds an [`EtcdLock`].
pub type EtcdLockBuilder = EngineBuilder<Arc<Sessions<Cluster>>>;
