//! The client's side: a lease on Redis nodes, in a database, etcd or ZooKeeper, with a token that never goes backwards.
//!
//! ```no_run
//! # async fn work() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use fencing::Resource;
//! use fencing::lock::{self, Lock};
//!
//! // redis://a,b,c, postgres://, mysql://, sqlite:, etcd://, zookeeper:// or memory:
//! let lock: Arc<dyn Lock> = lock::connect("memory:").await?;
//! let invoice = Resource::new("invoice/42")?;
//! let lease = lock.acquire(&invoice).await?;
//! lease.run(async { /* give lease.token() to every write */ }).await?;
//! lease.release().await?;
//! # Ok(())
//! # }
//! ```

mod backend;
mod connect;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
mod engine;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
mod lease;
mod operator;
pub mod redlock;
mod runtime;
mod service;
mod settings;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub mod sql;
mod wait;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

pub use crate::holder::Holder;
pub use connect::{ConnectError, ConnectOptions, connect};
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub use engine::builder::EngineBuilder;
pub use error::{AcquireError, LeaseLost, Loss, NodeCause, ReleaseError, RenewError};
pub use fencing_protocol::{Fault, Released};
pub use lease::ticket::{LeaseTicket, LeaseTicketError};
pub use lease::{Exclusive, Lease, LeaseSet, OfOne, Several, Shared, SharedLease};
pub use operator::{LeaseRecord, Operator};
pub use service::LockService;
pub use service::api::Lock;
pub use service::health::{Health, NodeHealth};
pub use settings::BuildError;
pub use wait::release_notifications::{Notice, ReleaseListener};
