use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Mode, NonEmpty, Resource, Terms};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument;

use super::in_flight::InFlightStatement;
use super::table::LeaseTable;
use crate::database::{Database, LeaseClaim};

/// The rows that one attempt asks for, and the table that has them.
pub(super) struct LeaseRows<DB: Database> {
    pub(super) table: Arc<LeaseTable<DB>>,
    pub(super) claims: NonEmpty<Arc<LeaseClaim>>,
    /// How long each statement may take.
    pub(super) budget: Duration,
    runtime: Handle,
}

impl<DB: Database> Clone for LeaseRows<DB> {
    fn clone(&self) -> LeaseRows<DB> {
        let (table, claims) = (Arc::clone(&self.table), self.claims.clone());
        LeaseRows { table, claims, budget: self.budget, runtime: self.runtime.clone() }
    }
}

impl<DB: Database> LeaseRows<DB> {
    pub(super) fn new(
        table: &Arc<LeaseTable<DB>>,
        resources: &NonEmpty<Resource>,
        mode: Mode,
        terms: Terms,
        budget: Duration,
    ) -> LeaseRows<DB> {
        let owner = table.owner();
        let claim = |resource: Resource| {
            let claim = LeaseClaim::new(&resource, &owner, terms.closed_for(), budget);
            Arc::new(claim.shared(mode == Mode::Shared))
        };
        let (table, claims) = (Arc::clone(table), resources.clone().map(claim));
        LeaseRows { table, claims, budget, runtime: Handle::current() }
    }

    /// Returns how long a statement for each row may take.
    pub(super) fn budget_of_all(&self) -> Duration {
        self.budget.saturating_mul(u32::try_from(self.claims.len()).unwrap_or(u32::MAX))
    }

    /// Counts a statement for each row as in flight, until the returned values are dropped.
    pub(super) fn enter(&self) -> Vec<InFlightStatement> {
        let enter = |claim: &Arc<LeaseClaim>| self.table.in_flight().enter(&claim.resource);
        self.claims.iter().map(enter).collect()
    }

    /// Releases the first rows, one for each of the statements, in a task and one after another: all at
    /// once could use up the pool. They stay closed for the `rest`. Returns the worst result of the first
    /// tries: a fault, or that one was not held any more. Each row whose first try fails is tried again.
    pub(super) fn release(
        &self,
        statements: Vec<InFlightStatement>,
        rest: Duration,
    ) -> JoinHandle<Result<bool, Fault>> {
        let (LeaseRows { table, claims, budget, .. }, end) = (self.clone(), Instant::now() + rest);
        let release = async move {
            let mut worst = Ok(true);
            for (claim, statement) in claims.into_iter().zip(statements) {
                let released = table.release(claim, budget, end).await;
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
