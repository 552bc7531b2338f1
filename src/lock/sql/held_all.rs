use std::time::Duration;

use fencing_protocol::{Fault, Terms, Token};
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::row::LeaseRow;
use super::rows::release_rows;
use crate::database::Database;
use crate::lock::held_lock::{HeldLock, Renewed};
use crate::lock::{ReleaseError, Released};

/// Several held rows.
pub(super) struct HeldRows<DB: Database> {
    pub(super) rows: Vec<LeaseRow<DB>>,
    pub(super) tokens: Vec<Token>,
    pub(super) terms: Terms,
}

impl<DB: Database> HeldRows<DB> {
    fn release_all(&self, rest: Duration) -> tokio::sync::oneshot::Receiver<Result<bool, Fault>> {
        let statements = self.rows.iter().map(LeaseRow::enter).collect();
        release_rows(self.rows.clone(), statements, rest)
    }
}

impl<DB: Database> HeldLock for HeldRows<DB> {
    fn renew(&self) -> BoxFuture<'_, Renewed> {
        Box::pin(async {
            let Some(LeaseRow { table, .. }) = self.rows.first() else {
                return Renewed::Superseded;
            };
            let start = table.clock().now();
            for (LeaseRow { table, claim, budget, .. }, token) in self.rows.iter().zip(&self.tokens)
            {
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
        let answer = self.release_all(rest);
        Box::pin(async move {
            let Some(LeaseRow { table, budget, .. }) = self.rows.first() else {
                return Ok(Released::Lapsed);
            };
            let count = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
            let fault = match timeout(budget.saturating_mul(count), answer).await {
                Ok(Ok(Ok(true))) => return Ok(Released::Released),
                Ok(Ok(Ok(false))) => return Ok(Released::Lapsed),
                Ok(Ok(Err(fault))) => fault,
                Ok(Err(_)) => Fault::Disconnected("the runtime is gone".into()),
                Err(_) => Fault::TimedOut,
            };
            Err(ReleaseError { causes: vec![table.cause(fault)] })
        })
    }

    fn abandon(&self, lost: bool, rest: Duration) {
        if !lost || self.terms.lock_delay.is_zero() {
            drop(self.release_all(rest));
        }
    }
}
