use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Mode, NonEmpty, Released, Renewed, Resource, Terms};
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument;

use super::table::{InFlightStatement, LeaseTable};
use crate::database::{Database, LeaseClaim};
use crate::lock::service::backend::{HeldLock, NodeCause, ReleaseError, SentRelease, Settings};
use crate::lock::sleep::answered;
use crate::sequencer::Sequencer;

/// The rows that one attempt asks for, and the table that has them.
pub(super) struct LeaseRows<DB: Database> {
    pub(super) table: Arc<LeaseTable<DB>>,
    pub(super) claims: NonEmpty<Arc<LeaseClaim>>,
    /// Time limit of each statement.
    pub(super) budget: Duration,
    runtime: Handle,
}

impl<DB: Database> LeaseRows<DB> {
    pub(super) fn new(
        table: &Arc<LeaseTable<DB>>,
        resources: &NonEmpty<Resource>,
        (owner, mode): (&str, Mode),
        settings: &Settings,
    ) -> Arc<LeaseRows<DB>> {
        let budget = settings.budget();
        let closed_for = settings.terms().closed_for();
        let claim = |resource: Resource| {
            let claim = LeaseClaim::new(&resource, owner, closed_for, budget);
            Arc::new(LeaseClaim { shared: mode == Mode::Shared, ..claim })
        };
        let (table, claims) = (Arc::clone(table), resources.clone().map(claim));
        Arc::new(LeaseRows { table, claims, budget, runtime: Handle::current() })
    }

    pub(super) fn budget_of_all(&self) -> Duration {
        self.budget.saturating_mul(u32::try_from(self.claims.len()).unwrap_or(u32::MAX))
    }

    /// Counts a statement for each row as in flight, until the returned values are dropped.
    pub(super) fn enter(&self) -> Vec<InFlightStatement> {
        let enter = |claim: &Arc<LeaseClaim>| self.table.in_flight.enter(&claim.resource);
        self.claims.iter().map(enter).collect()
    }

    /// Releases the first rows, one for each of the statements, in a task and one after another: all at
    /// once could use up the pool. They stay held for the `rest`. Returns the worst result of the first
    /// tries: a fault, or that one was not held any more. Each row whose first try fails is tried again.
    pub(super) fn release(
        self: &Arc<Self>,
        statements: Vec<InFlightStatement>,
        rest: Duration,
    ) -> JoinHandle<Result<bool, Fault>> {
        let (rows, end) = (Arc::clone(self), Instant::now() + rest);
        let release = async move {
            let mut worst = Ok(true);
            for (claim, statement) in rows.claims.iter().zip(statements) {
                let released = rows.table.release(Arc::clone(claim), rows.budget, end).await;
                drop(statement);
                worst = match (worst, released) {
                    (Ok(all), Ok(held)) => Ok(all && held),
                    (Err(fault), _) | (_, Err(fault)) => Err(fault),
                };
            }
            worst
        };
        self.runtime.spawn(release.in_current_span())
    }
}

/// The held rows of one lease. A renewal that arrives after the release locks nothing: no released row is renewed.
pub(super) struct HeldRows<DB: Database> {
    pub(super) rows: Arc<LeaseRows<DB>>,
    pub(super) locks: NonEmpty<Sequencer>,
    pub(super) terms: Terms,
}

impl<DB: Database> HeldLock for HeldRows<DB> {
    /// Renews one row after another. With `resumes` it reads each row first: the renewal itself would revive a row that
    /// has expired and that nobody else has acquired.
    fn renew(&self, resumes: bool) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>> {
        Box::pin(async move {
            let LeaseRows { table, claims, budget, .. } = &*self.rows;
            let start = table.clock.now();
            for (claim, lock) in claims.iter().zip(&self.locks) {
                let renew = async {
                    let ended = resumes && table.left(claim, lock.token, *budget).await? <= self.terms.lock_delay;
                    Ok(!ended && table.renew(claim, lock.token, *budget).await?)
                };
                if !renew.await.map_err(|fault| vec![table.cause(fault)])? {
                    return Ok(Renewed::Superseded);
                }
            }
            Ok(Renewed::Until(self.terms.deadline(start)))
        })
    }

    fn ticket_owner(&self) -> Option<String> {
        Some(self.rows.claims.first().owner.clone())
    }

    fn release(self: Arc<Self>, rest: Duration, _: bool) -> SentRelease {
        let answer = self.rows.release(self.rows.enter(), rest);
        Box::pin(async move {
            match answered(Instant::now() + self.rows.budget_of_all(), answer).await {
                Ok(true) => Ok(Released::Released),
                Ok(false) => Ok(Released::Lapsed),
                Err(fault) => Err(ReleaseError { causes: vec![self.rows.table.cause(fault)] }),
            }
        })
    }
}
