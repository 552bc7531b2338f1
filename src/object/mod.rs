//! A fence for object stores: S3, Azure Blob Storage, Google Cloud Storage, and whatever else the crate
//! [`object_store`] speaks to with conditional writes.
//!
//! ```
//! use std::sync::Arc;
//!
//! use fencing::Token;
//! use fencing::object::{ObjectError, ObjectFence};
//! use object_store::memory::InMemory;
//! use object_store::path::Path;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let fence = ObjectFence::open(Arc::new(InMemory::new())).await?;
//! let report = Path::from("reports/today");
//! // Each client uses the token of its lease.
//! let (old, new) = (Token::try_from("33")?, Token::try_from("34")?);
//! fence.put(&report, old, "first".into()).await?;
//!
//! // A new holder begins with a claim: from here on no older token writes.
//! fence.claim(&report, new).await?;
//! match fence.put(&report, old, "late".into()).await {
//!     Err(ObjectError::Stale(stale)) => assert_eq!(stale.highest, new),
//!     other => panic!("{other:?}"),
//! }
//! assert_eq!(fence.get(&report).await?, "first");
//! # Ok(())
//! # }
//! ```
//!
//! **Fencing.** A store compares a version and no number. So each object begins with a line that holds the token of
//! its last write, and each write is conditional on the version that was compared. Once a write has succeeded, no write
//! with a lower token is applied, if all writers use this fence: give them no right to write in another way, or demand
//! the conditional headers in the bucket's policy.
//!
//! The line also holds a nonce. On S3 an ETag is a hash of the contents: without the nonce, and with the token in the
//! metadata, an old client could take a later version with the same contents for the one that it has read.
//!
//! docs/guide/recipes.md has the format, for readers and writers in other languages, and what each call costs.

mod error;
mod head;
mod object_fence;
#[cfg(test)]
mod tests;
mod write;

pub use error::{ObjectError, PathCause};
pub use object_fence::ObjectFence;
