use std::time::Duration;

use fencing_protocol::{Fault, Terms, Token};
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::row::LeaseRow;
use crate::database::Database;
use crate::lock::held_lock::{HeldLock, Renewed};
use crate::lock::{ReleaseError, Released};

/// One held row.
///
/// Nothing keeps a renewal that is still on its way from arriving after the release:
/// that the database renews no row that was released is what keeps it from locking again.
pub(super) struct HeldRow<DB: Database> {
    pub(super) row: LeaseRow<DB>,
    pub(super) token: Token,
    pub(super) terms: Terms,
}

impl<DB: Database> HeldLock for HeldRow<DB> {
    fn renew(&self) -> BoxFuture<'_, Renewed> {
        Box::pin(async {
            let LeaseRow { table, claim, budget, .. } = &self.row;
            let start = table.clock().now();
            match table.renew(claim, i64::from(self.token), *budget).await {
                Ok(true) => Renewed::Until(self.terms.deadline(start)),
                Ok(false) => Renewed::Superseded,
                Err(fault) => Renewed::Failed(vec![table.cause(fault)]),
            }
        })
    }

    fn release(&self, rest: Duration) -> BoxFuture<'_, Result<Released, ReleaseError>> {
        // Sent here and now: dropping the future takes nothing back.
        let answer = self.row.release(self.row.enter(), rest);
        Box::pin(async move {
            let fault = match timeout(self.row.budget, answer).await {
                Ok(Ok(Ok(true))) => return Ok(Released::Released),
                Ok(Ok(Ok(false))) => return Ok(Released::Lapsed),
                Ok(Ok(Err(fault))) => fault,
                Ok(Err(_)) => Fault::Disconnected("the runtime is gone".into()),
                Err(_) => Fault::TimedOut,
            };
            Err(ReleaseError { causes: vec![self.row.table.cause(fault)] })
        })
    }

    fn abandon(&self, lost: bool, rest: Duration) {
        if !lost || self.terms.lock_delay.is_zero() {
            drop(self.row.release(self.row.enter(), rest));
        }
    }
}
