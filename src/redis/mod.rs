//! The fence inside a Redis: one script compares the token with the mark, raises the mark, and writes.
//!
//! A check outside of the write does not fence: the process may pause between the two. Redis runs a script atomically.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use fencing::redis::{FencedError, RedisMarks};
//! use fencing::{Resource, Token};
//!
//! let marks = RedisMarks::new("redis://127.0.0.1:6379", "files")?;
//! let found = marks.look().await?;
//! marks.open(&found, None).await?; // once, by an operator: see RedisMarks::open
//!
//! let file = Resource::new("files/a")?;
//! marks.fenced_set(&file, Token::new(34)?, "{files}:a", "new").await?;
//!
//! let refused = marks.fenced_set(&file, Token::new(33)?, "{files}:a", "old").await;
//! assert!(matches!(refused, Err(FencedError::Stale(_))));
//! # Ok(())
//! # }
//! ```
//!
//! # Lost marks
//!
//! A lost mark lets a stale token pass. All marks of a namespace are in one hash, `{namespace}:marks`, with the
//! `run_id` of the server when an operator opened them. Deleting, flushing or evicting the marks removes that field as
//! well, and a restarted or replaced server has another `run_id`. Then everything is refused ([`FencedError::Closed`])
//! until an operator has [read](RedisMarks::look) their state and [opened](RedisMarks::open) them.
//!
//! # Limits
//!
//! It does not detect an older copy of the marks without a restart, a field changed by hand, two namespaces for the
//! same data, or a proxy that moves an open connection: the table "Marks in a Redis" in `docs/reference/http.md` has all.

mod connection;
mod error;
mod marks;
mod open;

pub use crate::server_info::Unfit;
pub use error::{Closed, FencedError, SettingsError};
pub use marks::RedisMarks;
pub use open::{MarksState, MarksStateError};
