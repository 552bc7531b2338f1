use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument;

use super::backend::{Claim, Database, Taken};
use super::held::Held;
use super::ledger::Ledger;
use super::traffic::Underway;
use crate::lock::AcquireError;
use crate::lock::entropy;
use crate::lock::holder::Grant;
use crate::lock::settings::Terms;
use crate::quorum::{Fault, Owner};
use crate::{Resource, Token};

/// One attempt. Dropped at any await point, or lost, it takes the row back.
///
/// The statement runs in a task of its own, which is not dropped with the attempt: a
/// release that overtook it would find nothing to release.
pub(super) async fn attempt<DB: Database>(
    ledger: &Arc<Ledger<DB>>,
    resource: &Resource,
    terms: Terms,
    budget: Duration,
) -> Result<Grant, AcquireError> {
    let end = Instant::now() + budget;
    // What this process has on its way goes first, unless that hangs.
    let _ = timeout(budget / 2, ledger.traffic().clear(resource)).await;
    let owner = Owner(entropy::u128());
    let claim = Arc::new(Claim::new(resource, owner, terms.ttl + terms.lock_delay, budget));
    let (sender, answer) = oneshot::channel();
    let mut takeback = Takeback {
        ledger: Arc::clone(ledger),
        claim,
        runtime: Handle::current(),
        budget,
        underway: Some(ledger.traffic().enter(resource)),
    };
    // Before the database is asked: its expiry counts from a later moment.
    let start = ledger.clock().now();
    let take = async move {
        let outcome = takeback.ledger.take(&takeback.claim, budget).await;
        // Nothing to take back.
        if let Ok(Taken::Held(_)) | Err(Fault::Unreachable(_)) = outcome {
            takeback.underway = None;
        }
        // If nobody listens any more, or ceases to before it is read, it is dropped.
        let _ = sender.send((outcome, takeback));
    };
    tokio::spawn(take.in_current_span());
    let fault = match timeout_at(end, answer).await {
        Ok(Ok((Ok(Taken::Granted(token)), takeback))) => {
            let deadline = start + (terms.ttl - terms.drift);
            match Token::try_from(token) {
                Ok(token) if ledger.clock().now() < deadline => {
                    let holder = Arc::new(Held::new(takeback, token, terms));
                    return Ok(Grant { token, deadline, holder });
                }
                Ok(_) => Fault::TooLate,
                Err(error) => Fault::Nonsense(format!("token {token}: {error}")),
            }
        }
        Ok(Ok((Ok(Taken::Held(left)), _))) => {
            let retry_after = Duration::from_millis(u64::try_from(left).unwrap_or(0));
            return Err(AcquireError::Held { resource: resource.clone(), retry_after });
        }
        Ok(Ok((Ok(Taken::Overtaken), _))) => Fault::Nonsense("neither granted nor held".into()),
        Ok(Ok((Err(fault), _))) => fault,
        Ok(Err(_)) => Fault::Disconnected("the runtime is gone".into()),
        Err(_) => Fault::TimedOut,
    };
    let (resource, causes) = (resource.clone(), ledger.cause(fault));
    Err(AcquireError::NoQuorum { resource, needed: 1, granted: 0, causes })
}

/// Releases when it is dropped, unless there is nothing under way any more.
pub(super) struct Takeback<DB: Database> {
    pub(super) ledger: Arc<Ledger<DB>>,
    pub(super) claim: Arc<Claim>,
    pub(super) runtime: Handle,
    pub(super) budget: Duration,
    pub(super) underway: Option<Underway>,
}

impl<DB: Database> Drop for Takeback<DB> {
    fn drop(&mut self) {
        if let Some(underway) = self.underway.take() {
            drop(self.ledger.free(&self.runtime, &self.claim, self.budget, underway));
        }
    }
}
