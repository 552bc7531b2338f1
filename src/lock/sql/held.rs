use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::backend::{Claim, Database, Extension};
use super::bid::Takeback;
use super::ledger::Ledger;
use crate::Token;
use crate::lock::error::{ReleaseError, Released};
use crate::lock::holder::{Holder, Renewed};
use crate::lock::settings::Terms;
use crate::quorum::Fault;

/// One held row.
///
/// Nothing keeps a renewal that is still on its way from arriving after the release:
/// that the database renews no row that was released is what keeps it from locking again.
pub(super) struct Held<DB: Database> {
    ledger: Arc<Ledger<DB>>,
    claim: Arc<Claim>,
    runtime: Handle,
    budget: Duration,
    token: Token,
    terms: Terms,
}

impl<DB: Database> Held<DB> {
    /// Disarms the takeback: from now on the lease releases.
    pub(super) fn new(mut takeback: Takeback<DB>, token: Token, terms: Terms) -> Held<DB> {
        takeback.underway = None;
        Held {
            ledger: Arc::clone(&takeback.ledger),
            claim: Arc::clone(&takeback.claim),
            runtime: takeback.runtime.clone(),
            budget: takeback.budget,
            token,
            terms,
        }
    }

    fn free(&self) -> oneshot::Receiver<Result<bool, Fault>> {
        let underway = self.ledger.traffic().enter(&self.claim.resource);
        self.ledger.free(&self.runtime, &self.claim, self.budget, underway)
    }
}

impl<DB: Database> Holder for Held<DB> {
    fn renew(&self) -> BoxFuture<'_, Renewed> {
        Box::pin(async {
            let start = self.ledger.clock().now();
            let extend = self.ledger.extend(&self.claim, i64::from(self.token), self.budget);
            let fault = match extend.await {
                Ok(Extension::Done) => {
                    return Renewed::Until(start + (self.terms.ttl - self.terms.drift));
                }
                Ok(Extension::Followed) => return Renewed::Followed,
                Ok(Extension::Gone) => Fault::Refused("the lease was set free by hand".into()),
                Err(fault) => fault,
            };
            Renewed::Failed(self.ledger.cause(fault))
        })
    }

    fn release(&self) -> BoxFuture<'_, Result<Released, ReleaseError>> {
        // Sent here and now: dropping the future takes nothing back.
        let answer = self.free();
        Box::pin(async move {
            let fault = match timeout(self.budget, answer).await {
                Ok(Ok(Ok(true))) => return Ok(Released::Released),
                Ok(Ok(Ok(false))) => return Ok(Released::Lapsed),
                Ok(Ok(Err(fault))) => fault,
                Ok(Err(_)) => Fault::Disconnected("the runtime is gone".into()),
                Err(_) => Fault::TimedOut,
            };
            Err(ReleaseError { causes: self.ledger.cause(fault) })
        })
    }

    fn abandon(&self, lost: bool) {
        if !lost || self.terms.lock_delay.is_zero() {
            drop(self.free());
        }
    }
}
