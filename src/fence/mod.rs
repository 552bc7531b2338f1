//! The storage's side: refuse every write whose token is older than the highest seen.
//!
//! A [`Fence`] asks its [`Marks`] for the high-water mark of a resource. Its gate admits a newer
//! token only when requests with an older one have ended.
//!
//! ```
//! use fencing::fence::{FenceError, MemoryMarks};
//! use fencing::{Fence, Resource, Token};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let fence = Fence::new(MemoryMarks::default());
//! let file = Resource::new("files/a")?;
//! // Each client sends the token of its lease.
//! let (old, new) = (Token::try_from("33")?, Token::try_from("34")?);
//!
//! let admission = fence.admit(&file, new).await?;
//! // Write the file here.
//! drop(admission);
//!
//! match fence.admit(&file, old).await {
//!     Err(FenceError::Stale(stale)) => assert_eq!(stale.highest, new),
//!     other => panic!("{other:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **Fencing.** The gate closes the gap between check and write within one process only. If several processes write to
//! one storage, check the token inside the transaction that writes: see `fencing::sql`.

mod admit;
mod check;
mod error;
mod gate;
#[cfg(feature = "http")]
mod layer;
mod marks;
mod memory;
mod stale;
#[cfg(test)]
mod tests;
mod transactions;

use std::sync::Arc;
use std::time::Duration;

use check::Checks;
use error::Outcomes;
use fencing_protocol::Token;
use gate::Gate;
use tokio::time::Instant;

pub use admit::Admission;
pub use check::NotIssued;
pub use error::FenceError;
pub use marks::{Marks, MarksFuture};
pub use memory::{MemoryMarks, NotLowered};
pub use stale::Stale;
pub use transactions::{CommitError, Transactions};

/// The longest limit of a fence, and its longest grace.
const MAX_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Refuses tokens lower than the highest seen, and never runs requests with different tokens at the
/// same time. Clones share one fence.
///
/// It needs a tokio runtime with timers.
#[derive(Clone, derive_more::Debug)]
#[must_use]
pub struct Fence {
    #[debug(skip)]
    marks: Arc<dyn Marks>,
    #[debug(skip)]
    gate: Gate,
    limit: Duration,
    /// Time for which older requests may continue while a newer one waits; `None` for no limit.
    grace: Option<Duration>,
    waiters: usize,
    /// Optional check that a token was issued, before it raises a mark.
    #[debug("{}", checks.is_some())]
    checks: Option<Arc<Checks>>,
    /// The highest token that can have been issued.
    ceiling: Token,
    /// The time before which it admits nothing.
    closed_until: Option<Instant>,
    #[debug(skip)]
    outcomes: Arc<Outcomes>,
}

impl Fence {
    /// Makes a fence on these marks. Make one for all routes, and clone it: two fences do not see each other's requests
    /// in flight, and two [`MemoryMarks`] not even each other's tokens. An admission may take 5 s. A newer token waits
    /// for older requests in flight: bound these with [`drop_older_after`](Fence::drop_older_after).
    pub fn new(marks: impl Marks) -> Fence {
        Fence {
            marks: Arc::new(marks),
            gate: Gate::default(),
            limit: Duration::from_secs(5),
            grace: None,
            waiters: 1000,
            checks: None,
            ceiling: Token::MAX,
            closed_until: None,
            outcomes: Arc::default(),
        }
    }

    /// Limits how long an admission takes: the [question](Fence::check_sequencer) whether the token was issued, the
    /// answer of the marks, and the end of older requests in flight, together. Default: 5 s; at most one day.
    pub fn limit(self, limit: Duration) -> Fence {
        Fence { limit: limit.min(MAX_LIMIT), ..self }
    }

    /// Stops older requests in flight ([`Admission::superseded`]) at the end of their grace. It counts from the moment
    /// when the first newer token has passed the marks, or from when the marks have kept newer ones waiting (100 ms at
    /// least). A newer request that gives up in the meantime, at its [`limit`](Fence::limit), does not restart it. It
    /// is at most one day. `Duration::ZERO` stops them at once. Default: older requests are never stopped: one that
    /// never ends, such as an upload whose client has stopped, blocks the resource for all newer tokens.
    ///
    /// The tower layer drops an older request together with its response body: its handler ends at an `.await`, as it
    /// does when its client disconnects. Work that it has handed to something else (`spawn_blocking`, `tokio::fs`, a
    /// task) continues, and may write after a newer request has written: hold an [`Admission`] there, or check the
    /// token in the transaction that writes. If you hold an admission, the fence asks you to stop, and waits. If clones
    /// of the fence have different settings, requests from a clone without a grace are not stopped.
    pub fn drop_older_after(self, grace: Duration) -> Fence {
        Fence { grace: Some(grace.min(MAX_LIMIT)), ..self }
    }

    /// Limits how many requests with one token may wait for older ones at a time. More
    /// are refused at once ([`FenceError::Crowded`]). Default: 1000.
    pub fn waiters(self, waiters: usize) -> Fence {
        Fence { waiters, ..self }
    }

    /// Refuses every token above `ceiling` ([`FenceError::NotIssued`]) before it asks the lock service. Use it for lock
    /// services that cannot [check issued tokens](Fence::check_sequencer). Default: [`Token::MAX`].
    ///
    /// **Fencing.** It bounds the damage of a forged token, but does not prevent it. A forged token up to the ceiling
    /// locks out the others until their tokens have passed it, or until the mark is lowered. If it is exactly the
    /// ceiling, and the lock service issues tokens above the marks, then all new tokens are above the ceiling and are
    /// refused, until an operator raises the ceiling, or lowers the mark and the lease together. Without a ceiling, a
    /// forged token could exhaust the tokens. Clients do not learn the ceiling.
    ///
    /// Choose one far above all tokens ever issued, and far below `Token::MAX`: leases in a database count from 1.
    /// Tokens from nodes begin with the time and jump, so the fence sets no limit for a single step.
    pub fn ceiling(self, ceiling: Token) -> Fence {
        Fence { ceiling, ..self }
    }

    /// Refuses every token until then ([`FenceError::Quarantine`]): requests of an earlier process may still be at
    /// work. Call it before you clone the fence.
    pub fn closed_until(self, time: Instant) -> Fence {
        Fence { closed_until: Some(time), ..self }
    }

    /// Returns the marks, for operators.
    pub fn marks(&self) -> &dyn Marks {
        &*self.marks
    }
}
