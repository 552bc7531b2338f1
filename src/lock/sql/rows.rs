use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Mode, NonEmpty, Resource, Terms};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Instrument;

use super::in_flight::InFlightStatement;
use super::table::LeaseTable;
use crate::database::{Claim, Database};

/// The rows that one attempt asks for, and the way to them.
pub(super) struct LeaseRows<DB: Database> {
    pub(super) table: Arc<LeaseTable<DB>>,
    pub(super) claims: NonEmpty<Arc<Claim>>,
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
            let claim = Claim::new(&resource, &owner, terms.closed_for(), budget);
            Arc::new(claim.shared(mode == Mode::Shared))
        };
        let (table, claims) = (Arc::clone(table), resources.clone().map(claim));
        LeaseRows { table, claims, budget, runtime: Handle::current() }
    }

    /// Returns how long a statement for each row may take.
    pub(super) fn budget_of_all(&self) -> Duration {
        self.budget.saturating_mul(u32::try_from(self.claims.len()).unwrap_or(u32::MAX))
    }

    /// Notes that a statement for each row is on its way, until what it returns is dropped.
    pub(super) fn enter(&self) -> Vec<InFlightStatement> {
        let enter = |claim: &Arc<Claim>| self.table.in_flight().enter(&claim.resource);
        self.claims.iter().map(enter).collect()
    }

    /// Releases the rows that have one of the statements, in a task of its own and one after another: all at
    /// once could use up the pool. They stay closed for the `rest`. Reports the worst outcome of the first
    /// tries: a fault, or that one was not held any more. Each row goes on by itself if its first try fails.
    pub(super) fn release(
        &self,
        statements: Vec<InFlightStatement>,
        rest: Duration,
    ) -> oneshot::Receiver<Result<bool, Fault>> {
        let (sender, answer) = oneshot::channel();
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
            let _ = sender.send(worst);
        };
        self.runtime.spawn(release.in_current_span());
        answer
    }
}
