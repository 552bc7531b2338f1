#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(any(feature = "http", feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod background;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod database;
pub mod fence;
// Its snippets are tests.
#[cfg(doctest)]
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
