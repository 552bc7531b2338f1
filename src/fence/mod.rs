//! Storage side: what refuses a write whose token is older than the highest seen.
//!
//! A [`Fence`] asks its [`Marks`] (the high-water mark of each resource), and its gate
//! lets no newer token in before requests with an older one have ended.
//!
//! **Fencing.** The gate closes the gap between the check and the write within one
//! process only. Where several processes write to one storage, the fence is the check
//! inside the transaction that writes.

mod admission;
mod error;
mod gate;
mod marks;
mod memory;
mod stale;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use crate::resource::Resource;
use crate::token::Token;
use gate::{Flight, Gate};

pub use admission::Admission;
pub use error::AdmitError;
pub use marks::{Marks, MarksError};
pub use memory::MemoryMarks;
pub use stale::Stale;

/// How long the marks may take before older requests are taken to be in the way.
const PATIENCE: Duration = Duration::from_millis(100);
/// The longest limit.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Refuses tokens older than the highest seen, and keeps requests of different tokens
/// apart. Clones are the same fence.
#[derive(Clone)]
pub struct Fence {
    marks: Arc<dyn Marks>,
    gate: Arc<Gate>,
    limit: Duration,
    drops_older: bool,
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence")
            .field("limit", &self.limit)
            .field("drops_older", &self.drops_older)
            .finish_non_exhaustive()
    }
}

impl Fence {
    /// A fence on these marks. An admission may take 5 s; a newer token waits for older
    /// requests in flight.
    pub fn new(marks: impl Marks) -> Fence {
        Fence {
            marks: Arc::new(marks),
            gate: Arc::default(),
            limit: Duration::from_secs(5),
            drops_older: false,
        }
    }

    /// The longest that an admission takes: the answer of the marks, and the end of older
    /// requests in flight. Default: 5 s; at most a day.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Fence {
        Fence { limit, ..self }
    }

    /// Older requests in flight are told to stop ([`Admission::superseded`]) as soon as a
    /// newer token has passed the marks, or has waited for them for 100 ms, instead of
    /// holding it up until they end. The tower layer drops them. For requests that may be
    /// cut off at any `.await`.
    #[must_use]
    pub fn drop_older(self) -> Fence {
        Fence { drops_older: true, ..self }
    }

    /// Admits a request with `token`: raises the mark, then waits until no request with
    /// an older token is in flight. Requests with equal tokens run side by side.
    ///
    /// Hold the [`Admission`] until the write is done.
    ///
    /// # Errors
    /// [`AdmitError`]. Whatever it is, nothing may be written.
    ///
    /// # Cancel safety
    /// Dropped, the mark may have been raised, and nothing stays in flight.
    ///
    /// **Fencing.** Once this has returned, no older token is or will be admitted by this
    /// fence or its clones; by other processes on the same marks, no older one passes
    /// the marks, but one that passed before may still be writing there.
    #[tracing::instrument(name = "fencing.admit", level = "debug", skip_all, fields(%resource, %token))]
    pub async fn admit(&self, resource: &Resource, token: Token) -> Result<Admission, AdmitError> {
        let outcome = self.pass(resource, token).await;
        let label = match &outcome {
            Ok(_) => "admitted",
            Err(error) => {
                tracing::warn!(%error, "not admitted");
                error.label()
            }
        };
        metrics::counter!("fencing_admissions_total", "outcome" => label).increment(1);
        outcome
    }

    async fn pass(&self, resource: &Resource, token: Token) -> Result<Admission, AdmitError> {
        let end = Instant::now() + self.limit.min(LONGEST);
        // In flight before the marks are asked: whoever passes them later sees this one,
        // however long it pauses in between.
        let flight = self.gate.enter(resource, token)?;
        match timeout_at(end, self.raise(&flight)).await {
            Ok(raised) => raised?,
            Err(_) => {
                let problem = format!("no answer within {:?}", self.limit);
                return Err(AdmitError::Unreachable(problem.into()));
            }
        }
        flight.confirm();
        match timeout_at(end, flight.alone()).await {
            Ok(alone) => alone?,
            Err(_) => return Err(flight.busy(self.limit)),
        }
        Ok(Admission::new(flight, self.drops_older))
    }

    /// Asks the marks. Where they are slow, an older request's own transaction may hold
    /// them: if older requests are to be dropped at all, they are now.
    async fn raise(&self, flight: &Flight) -> Result<(), MarksError> {
        let mut raise = self.marks.raise(&flight.resource, flight.token);
        if self.drops_older {
            match timeout(PATIENCE, &mut raise).await {
                Ok(raised) => return raised,
                Err(_) => flight.press(),
            }
        }
        raise.await
    }
}
