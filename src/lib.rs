//! Distributed locks with fencing tokens.
//!
//! A [`Lease`] carries a [`Token`], and a later lease of the same [`Resource`] has a larger one. The storage, or a check
//! in front of it, remembers the highest token it has seen, its high-water mark, and refuses a write with a lower one.
//!
//! | module | what it does |
//! |---|---|
//! | [`lock`] | gets leases: [`lock::connect`] takes the URL of a back end |
//! | [`sql`] | checks the token in the transaction that writes, or by triggers |
//! | [`http`] | checks the token in front of a handler, and sends it from a client |
//! | [`object`], [`redis`] | write to object stores and Redis if the token is not stale |
//! | [`fence`] | checks tokens in one process, with marks in memory, a database or Redis |
//!
//! ```
//! use fencing::fence::MemoryMarks;
//! use fencing::{Fence, Resource};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (lock, fence) = (fencing::lock::connect("memory:").await?, Fence::new(MemoryMarks::default()));
//! let invoice = Resource::new("invoice/42")?;
//! let lease = lock.acquire(&invoice).await?;
//! let admission = fence.admit(&invoice, lease.token()).await?; // a stale token is an error
//! // Write here.
//! drop(admission);
//! lease.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Modules but `lock` and `fence` need a feature: `postgres`, `mysql` or `sqlite`; `http`; `object-store`; `redis`.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(any(feature = "http", feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod background;
mod backoff;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod database;
pub mod fence;
// Its snippets are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/guide/README.md")]
#[doc = include_str!("../docs/guide/choosing.md")]
#[doc = include_str!("../docs/guide/moving.md")]
#[doc = include_str!("../docs/reference/http.md")]
mod guide {}
mod holder;
#[cfg(feature = "http")]
pub mod http;
pub mod lock;
mod log_throttle;
#[cfg(feature = "object-store")]
pub mod object;
mod random;
#[cfg(feature = "redis")]
pub mod redis;
pub mod sequencer;
#[cfg(feature = "redis")]
mod server_info;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub mod sql;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;

pub use fence::Fence;
pub use fencing_protocol::{resource, token};
pub use lock::redlock::Redlock;
pub use lock::{Lease, Lock};
pub use resource::{Resource, ResourceError};
pub use sequencer::{HeldToken, Sequencer, SequencerError};
pub use token::{Token, TokenError};
