use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Mode, NonEmpty, Resource};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::rows::{HeldRows, LeaseRows};
use super::table::{InFlightStatement, LeaseTable};
use crate::database::{AcquireAnswer, Database, LeaseClaim};
use crate::lock::service::backend::{
    AcquireError, Ask, Grant, Health, HeldLock, LeaseTicket, LockBackend, NodeCause, Settings, draining,
};
use crate::lock::sleep::answered;
use crate::sequencer::Sequencer;

impl<DB: Database> LockBackend for Arc<LeaseTable<DB>> {
    /// Asks for one row after another, in the order of the list. It never waits for a row while it holds another, so
    /// there are no deadlocks. Dropped at any await point, or lost, it releases all of them. Where others share a row
    /// that it asks for exclusively, no client joins them until it asks again. Each row is granted and committed
    /// separately: a transaction for all of them would stay open as long as its client is stopped in the middle of it.
    async fn attempt(&self, wanted: &NonEmpty<Resource>, ask: Ask, settings: &Settings) -> Result<Grant, AcquireError> {
        let (terms, budget) = (settings.terms(), settings.budget());
        let rows = LeaseRows::new(self, wanted, (&self.owner(), ask.mode), settings);
        // The first renewal comes after a third of the TTL and asks for one row after another as well.
        let end = Instant::now() + rows.budget_of_all().min(terms.ttl / 3).max(budget);
        // Earlier statements of this process go first, unless they hang.
        let clear = Instant::now() + budget / 2;
        for resource in wanted {
            let _ = timeout_at(clear, self.in_flight.clear(resource)).await;
        }
        let mut asked = ClaimedRows { statements: rows.enter(), rows: Arc::clone(&rows), asked: 0 };
        // Before the database is asked: its expiry counts from a later moment.
        let start = self.clock.now();
        // A task is not dropped with the attempt: a release that overtook a statement would find nothing to release.
        let acquire = async move {
            let outcome = asked.acquire(end).await;
            // If the caller has given up, or does before it reads this, it is dropped.
            Ok::<_, Fault>((outcome, asked))
        };
        let unavailable = |fault| AcquireError::unavailable(wanted.first(), self.cause(fault));
        let answer = answered(end, tokio::spawn(acquire.in_current_span())).await;
        let (outcome, mut asked) = answer.map_err(unavailable)?;
        let locks = outcome.map_err(|RefusedRow { error, shared }| {
            if let Some(resource) = shared.filter(|_| ask.drains) {
                // Half a budget: few answers take a whole one.
                self.drain(&resource, draining(settings, budget / 2, ask.end), budget);
            }
            error
        })?;
        let deadline = terms.deadline(start);
        if self.clock.now() >= deadline {
            return Err(unavailable(Fault::GrantedTooLate));
        }
        // From now on the lease releases.
        asked.asked = 0;
        let held = Arc::new(HeldRows { rows, locks: locks.clone(), terms });
        Ok(Grant { locks, deadline, held })
    }

    async fn held(&self, ticket: &LeaseTicket, settings: &Settings) -> Result<Option<Arc<dyn HeldLock>>, NodeCause> {
        let LeaseTicket { sequencer, owner, .. } = ticket;
        let resource = NonEmpty::new(sequencer.resource.clone());
        let rows = LeaseRows::new(self, &resource, (owner, Mode::Exclusive), settings);
        Ok(Some(Arc::new(HeldRows { rows, locks: NonEmpty::new(sequencer.clone()), terms: settings.terms() })))
    }

    async fn health(&self, settings: &Settings) -> Health {
        let probed = self.probe(settings.budget()).await;
        Health::of_one(probed.err().map(|fault| self.cause(fault)).into_iter().collect())
    }
}

struct RefusedRow {
    error: AcquireError,
    /// The row, if it is shared and was requested exclusively.
    shared: Option<Resource>,
}

/// The rows of an attempt that is not over. Dropped, it releases those that were asked for.
struct ClaimedRows<DB: Database> {
    rows: Arc<LeaseRows<DB>>,
    asked: usize,
    statements: Vec<InFlightStatement>,
}

impl<DB: Database> ClaimedRows<DB> {
    async fn acquire(&mut self, end: Instant) -> Result<NonEmpty<Sequencer>, RefusedRow> {
        let NonEmpty { head, tail } = self.rows.claims.clone();
        let mut locks = NonEmpty::new(self.acquire_one(head, end).await?);
        for claim in tail {
            locks.push(self.acquire_one(claim, end).await?);
        }
        Ok(locks)
    }

    async fn acquire_one(&mut self, claim: Arc<LeaseClaim>, end: Instant) -> Result<Sequencer, RefusedRow> {
        let (resource, table) = (&claim.resource, Arc::clone(&self.rows.table));
        let fails = |fault| RefusedRow { error: AcquireError::unavailable(resource, table.cause(fault)), shared: None };
        // The caller has given up.
        if Instant::now() >= end {
            return Err(fails(Fault::TimedOut));
        }
        self.asked += 1;
        match table.acquire(&claim, self.rows.budget).await {
            Ok(AcquireAnswer::Granted(token)) => Ok(Sequencer::new(resource.clone(), token)),
            Ok(AcquireAnswer::Held { left: retry_after, shared, holder }) => {
                // There is nothing to release in this row.
                self.asked -= 1;
                let error = AcquireError::Held { resource: resource.clone(), retry_after, holder };
                Err(RefusedRow { error, shared: shared.then(|| resource.clone()) })
            }
            Err(cause) => {
                // No statement was sent.
                if matches!(cause, Fault::Unreachable(_)) {
                    self.asked -= 1;
                }
                Err(fails(cause))
            }
        }
    }
}

impl<DB: Database> Drop for ClaimedRows<DB> {
    fn drop(&mut self) {
        let mut statements = std::mem::take(&mut self.statements);
        statements.truncate(self.asked);
        if !statements.is_empty() {
            drop(self.rows.release(statements, Duration::ZERO));
        }
    }
}
