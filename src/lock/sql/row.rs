use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::Fault;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::in_flight::InFlightStatement;
use super::table::LeaseTable;
use crate::database::{Claim, Database};

/// The row that one attempt asks for, and the way to it.
pub(super) struct LeaseRow<DB: Database> {
    pub(super) table: Arc<LeaseTable<DB>>,
    pub(super) claim: Arc<Claim>,
    pub(super) budget: Duration,
    runtime: Handle,
}

impl<DB: Database> Clone for LeaseRow<DB> {
    fn clone(&self) -> LeaseRow<DB> {
        let (table, claim) = (Arc::clone(&self.table), Arc::clone(&self.claim));
        LeaseRow { table, claim, budget: self.budget, runtime: self.runtime.clone() }
    }
}

impl<DB: Database> LeaseRow<DB> {
    pub(super) fn new(table: &Arc<LeaseTable<DB>>, claim: Claim, budget: Duration) -> LeaseRow<DB> {
        let (table, claim) = (Arc::clone(table), Arc::new(claim));
        LeaseRow { table, claim, budget, runtime: Handle::current() }
    }

    /// Returns the runtime in which the row was asked for.
    pub(super) fn runtime(&self) -> Handle {
        self.runtime.clone()
    }

    /// Notes that a statement for this resource is on its way, until what it returns is dropped.
    pub(super) fn enter(&self) -> InFlightStatement {
        self.table.in_flight().enter(&self.claim.resource)
    }

    /// Releases the row in a task of its own. It stays closed for the `rest`.
    pub(super) fn release(
        &self,
        statement: InFlightStatement,
        rest: Duration,
    ) -> oneshot::Receiver<Result<bool, Fault>> {
        self.table.release(&self.runtime, &self.claim, self.budget, statement, rest)
    }
}
