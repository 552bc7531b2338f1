use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Mode, NonEmpty, Renewed, Resource, Terms};
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::table::{InFlightStatement, LeaseTable};
use crate::database::{AcquireAnswer, Database, LeaseClaim};
use crate::lock::backend::{
    AcquireError, Ask, Grant, Health, HeldLock, LeaseTicket, LockBackend, NodeCause, SentRelease, Settings, draining,
};
use crate::lock::runtime::answered;
use crate::sequencer::Sequencer;

impl<DB: Database> LockBackend for Arc<LeaseTable<DB>> {
    /// Asks for one row after another, in the order of the list. It never waits for a row while it holds another, so
    /// there are no deadlocks. Dropped at any await point, or lost, it releases all of them. Where others share a row
    /// that it asks for exclusively, no client joins them until it asks again. Each row is granted and committed
    /// separately: a transaction for all of them would stay open as long as its client is stopped in the middle of it.
    async fn attempt(&self, wanted: &NonEmpty<Resource>, ask: Ask, settings: &Settings) -> Result<Grant, AcquireError> {
        let (terms, budget) = (settings.terms(), settings.budget());
        let rows = LeaseRows::new(self, wanted, &settings.new_owner().1, ask.mode, settings);
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
        Ok(Grant { locks, asked: start, deadline, held })
    }

    async fn resumed(&self, ticket: &LeaseTicket, settings: &Settings) -> Result<Option<Arc<dyn HeldLock>>, NodeCause> {
        let LeaseTicket { sequencer, owner, .. } = ticket;
        let resource = NonEmpty::new(sequencer.resource.clone());
        let rows = LeaseRows::new(self, &resource, owner, Mode::Exclusive, settings);
        Ok(Some(Arc::new(HeldRows { rows, locks: NonEmpty::new(sequencer.clone()), terms: settings.terms() })))
    }

    async fn health(&self, settings: &Settings) -> Health {
        let probed = self.probe(settings.budget()).await;
        Health::of_one(probed.err().map(|fault| self.cause(fault)).into_iter().collect())
    }
}

/// The rows that one attempt asks for, and the table that has them.
struct LeaseRows<DB: Database> {
    table: Arc<LeaseTable<DB>>,
    claims: NonEmpty<Arc<LeaseClaim>>,
    /// Time limit of each statement.
    budget: Duration,
    runtime: Handle,
}

impl<DB: Database> LeaseRows<DB> {
    fn new(
        table: &Arc<LeaseTable<DB>>,
        resources: &NonEmpty<Resource>,
        owner: &str,
        mode: Mode,
        settings: &Settings,
    ) -> Arc<LeaseRows<DB>> {
        let budget = settings.budget();
        let closed_for = settings.terms().closed_for();
        let claim = |resource| Arc::new(LeaseClaim::new(resource, mode, owner, closed_for, budget));
        let (table, claims) = (Arc::clone(table), resources.clone().map(claim));
        Arc::new(LeaseRows { table, claims, budget, runtime: Handle::current() })
    }

    fn budget_of_all(&self) -> Duration {
        self.budget.saturating_mul(u32::try_from(self.claims.len()).unwrap_or(u32::MAX))
    }

    /// Counts a statement for each row as in flight, until the returned values are dropped.
    fn enter(&self) -> Vec<InFlightStatement> {
        let enter = |claim: &Arc<LeaseClaim>| self.table.in_flight.enter(&claim.resource);
        self.claims.iter().map(enter).collect()
    }

    /// Releases the first rows, one for each of the statements, in a task and one after another: all at
    /// once could use up the pool. They stay held for the `rest`. Returns the worst result of the first
    /// tries: a fault, or that one was not held any more. Each row whose first try fails is tried again.
    fn release(
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

/// The held rows of one lease.
///
/// A renewal in flight may arrive after the release. It does not lock again, because the database renews no row
/// that was released.
struct HeldRows<DB: Database> {
    rows: Arc<LeaseRows<DB>>,
    locks: NonEmpty<Sequencer>,
    terms: Terms,
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

    fn hand_out(&self) -> String {
        self.rows.claims.first().owner.clone()
    }

    fn release(self: Arc<Self>, rest: Duration, _: bool) -> SentRelease {
        let answer = self.rows.release(self.rows.enter(), rest);
        Box::pin(async move {
            let released = answered(Instant::now() + self.rows.budget_of_all(), answer).await;
            released.map_err(|fault| vec![self.rows.table.cause(fault)])
        })
    }
}
