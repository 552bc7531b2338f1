use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, NonEmpty, Terms, Token};
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::rows::LeaseRows;
use crate::database::{Database, LeaseClaim};
use crate::lock::error::{ReleaseError, Released};
use crate::lock::lease::held_lock::{HeldLock, Renewed};

/// The held rows of one lease.
///
/// A renewal that is still on its way may arrive after the release. It does not lock again, because the database
/// renews no row that was released.
pub(super) struct HeldRows<DB: Database> {
    pub(super) rows: LeaseRows<DB>,
    pub(super) locks: NonEmpty<(Arc<LeaseClaim>, Token)>,
    pub(super) terms: Terms,
}

impl<DB: Database> HeldLock for HeldRows<DB> {
    fn renew(&self) -> BoxFuture<'_, Renewed> {
        Box::pin(async {
            let LeaseRows { table, budget, .. } = &self.rows;
            let start = table.clock().now();
            for (claim, token) in &self.locks {
                match table.renew(claim, i64::from(*token), *budget).await {
                    Ok(true) => {}
                    Ok(false) => return Renewed::Superseded,
                    Err(fault) => return Renewed::Failed(vec![table.cause(fault)]),
                }
            }
            Renewed::Until(self.terms.deadline(start))
        })
    }

    fn release(&self, rest: Duration) -> BoxFuture<'_, Result<Released, ReleaseError>> {
        // Sent here and now: dropping the future takes nothing back.
        let answer = self.rows.release(self.rows.enter(), rest);
        Box::pin(async move {
            let fault = match timeout(self.rows.budget_of_all(), answer).await {
                Ok(Ok(Ok(true))) => return Ok(Released::Released),
                Ok(Ok(Ok(false))) => return Ok(Released::Lapsed),
                Ok(Ok(Err(fault))) => fault,
                Ok(Err(_)) => Fault::Disconnected("the runtime is gone".into()),
                Err(_) => Fault::TimedOut,
            };
            Err(ReleaseError { causes: vec![self.rows.table.cause(fault)] })
        })
    }

    fn abandon(&self, lost: bool, rest: Duration) {
        if !lost || self.terms.lock_delay.is_zero() {
            drop(self.rows.release(self.rows.enter(), rest));
        }
    }
}
