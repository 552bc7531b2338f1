use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::attempt::ReleaseOnDrop;
use super::backend::{Claim, Database, RenewAnswer};
use super::table::LeaseTable;
use crate::lock::error::{ReleaseError, Released};
use crate::lock::held_lock::{HeldLock, Renewed};
use crate::lock::settings::Terms;
use crate::protocol::Fault;
use crate::token::Token;

/// One held row.
///
/// Nothing keeps a renewal that is still on its way from arriving after the release:
/// that the database renews no row that was released is what keeps it from locking again.
pub(super) struct HeldRow<DB: Database> {
    table: Arc<LeaseTable<DB>>,
    claim: Arc<Claim>,
    runtime: Handle,
    budget: Duration,
    token: Token,
    terms: Terms,
}

impl<DB: Database> HeldRow<DB> {
    /// Disarms the release_on_drop: from now on the lease releases.
    pub(super) fn new(
        mut release_on_drop: ReleaseOnDrop<DB>,
        token: Token,
        terms: Terms,
    ) -> HeldRow<DB> {
        release_on_drop.in_flight_statement = None;
        HeldRow {
            table: Arc::clone(&release_on_drop.table),
            claim: Arc::clone(&release_on_drop.claim),
            runtime: release_on_drop.runtime.clone(),
            budget: release_on_drop.budget,
            token,
            terms,
        }
    }

    fn send_release(&self) -> oneshot::Receiver<Result<bool, Fault>> {
        let in_flight_statement = self.table.in_flight().enter(&self.claim.resource);
        self.table.release(&self.runtime, &self.claim, self.budget, in_flight_statement)
    }
}

impl<DB: Database> HeldLock for HeldRow<DB> {
    fn renew(&self) -> BoxFuture<'_, Renewed> {
        Box::pin(async {
            let start = self.table.clock().now();
            let extend = self.table.renew(&self.claim, i64::from(self.token), self.budget);
            let fault = match extend.await {
                Ok(RenewAnswer::Done) => {
                    return Renewed::Until(start + (self.terms.ttl - self.terms.drift));
                }
                Ok(RenewAnswer::Superseded) => return Renewed::Superseded,
                Ok(RenewAnswer::Gone) => Fault::Refused("the lease was set free by hand".into()),
                Err(fault) => fault,
            };
            Renewed::Failed(self.table.cause(fault))
        })
    }

    fn release(&self) -> BoxFuture<'_, Result<Released, ReleaseError>> {
        // Sent here and now: dropping the future takes nothing back.
        let answer = self.send_release();
        Box::pin(async move {
            let fault = match timeout(self.budget, answer).await {
                Ok(Ok(Ok(true))) => return Ok(Released::Released),
                Ok(Ok(Ok(false))) => return Ok(Released::Lapsed),
                Ok(Ok(Err(fault))) => fault,
                Ok(Err(_)) => Fault::Disconnected("the runtime is gone".into()),
                Err(_) => Fault::TimedOut,
            };
            Err(ReleaseError { causes: self.table.cause(fault) })
        })
    }

    fn abandon(&self, lost: bool) {
        if !lost || self.terms.lock_delay.is_zero() {
            drop(self.send_release());
        }
    }
}
