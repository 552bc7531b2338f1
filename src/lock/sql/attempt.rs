use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Mode, NonEmpty, Resource, Terms, Token};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::held::HeldRows;
use super::in_flight::InFlightStatement;
use super::rows::LeaseRows;
use super::table::LeaseTable;
use crate::database::{AcquireAnswer, Database, LeaseClaim};
use crate::holder::Holder;
use crate::lock::error::AcquireError;
use crate::lock::lease::held_lock::Grant;
use crate::lock::wait::backoff::Drains;
use crate::sequencer::Sequencer;

/// Makes one attempt for all of the rows, one after another in the order of the list. It never waits for
/// a row while it holds another, so two clients never wait for each other. Dropped at any await point, or
/// lost, it releases all of them. Where others share a row that it asks for alone, nobody joins them for as
/// long as it `drains`.
///
/// Each row is granted and committed by itself: a transaction for all of them would stay open for as long
/// as its client is stopped in the middle of it.
pub(super) async fn attempt<DB: Database>(
    table: &Arc<LeaseTable<DB>>,
    resources: &NonEmpty<Resource>,
    (mode, drains): (Mode, Option<Drains>),
    terms: Terms,
    budget: Duration,
) -> Result<Grant, AcquireError> {
    let rows = LeaseRows::new(table, resources, mode, terms, budget);
    // The first renewal comes after a third of the TTL and asks for one row after another as well.
    let end = Instant::now() + rows.budget_of_all().min(terms.ttl / 3).max(budget);
    // Earlier statements of this process go first, unless they hang.
    let clear = Instant::now() + budget / 2;
    for resource in resources {
        let _ = timeout_at(clear, table.in_flight().clear(resource)).await;
    }
    let mut asked = ReleaseOnDrop { statements: rows.enter(), rows: rows.clone(), asked: 0 };
    // Before the database is asked: its expiry counts from a later moment.
    let start = table.clock().now();
    // A task is not dropped with the attempt: a release that overtook a statement would find
    // nothing to release.
    let acquire = async move {
        let outcome = asked.acquire(end).await;
        // If the caller has given up, or does before it reads this, it is dropped.
        (outcome, asked)
    };
    let answer = tokio::spawn(acquire.in_current_span());
    let first = resources.first();
    let (resource, fault) = match timeout_at(end, answer).await {
        Ok(Ok((Ok(locks), mut asked))) => {
            let deadline = terms.deadline(start);
            if table.clock().now() < deadline {
                // From now on the lease releases.
                asked.asked = 0;
                let sequencer = |(claim, token): (Arc<LeaseClaim>, Token)| {
                    Sequencer::new(claim.resource.clone(), token)
                };
                let sequencers = locks.clone().map(sequencer);
                let held = Arc::new(HeldRows { rows, locks, terms });
                return Ok(Grant { locks: sequencers, deadline, held });
            }
            (first, Fault::GrantedTooLate)
        }
        Ok(Ok((Err((number, obstacle)), _))) => {
            let resource = resources.get(number).unwrap_or(first);
            match obstacle {
                Obstacle::Held { retry_after, shared, holder } => {
                    if let Some(drains) = drains.filter(|_| shared) {
                        table.drain(resource, drains.lasting(), budget);
                    }
                    let resource = resource.clone();
                    return Err(AcquireError::Held { resource, retry_after, holder });
                }
                Obstacle::Fault(fault) => (resource, fault),
            }
        }
        Ok(Err(_)) => (first, Fault::Disconnected("the runtime is gone".into())),
        Err(_) => (first, Fault::TimedOut),
    };
    Err(AcquireError::Unavailable { resource: resource.clone(), cause: table.cause(fault) })
}

/// Why one of the rows was not granted.
enum Obstacle {
    Held { retry_after: Duration, shared: bool, holder: Option<Holder> },
    Fault(Fault),
}

/// Releases the rows that were asked for when it is dropped.
struct ReleaseOnDrop<DB: Database> {
    rows: LeaseRows<DB>,
    asked: usize,
    statements: Vec<InFlightStatement>,
}

impl<DB: Database> ReleaseOnDrop<DB> {
    /// Acquires one row after another. Returns them with their tokens, or the index of the row that was not
    /// granted, and why.
    async fn acquire(
        &mut self,
        end: Instant,
    ) -> Result<NonEmpty<(Arc<LeaseClaim>, Token)>, (usize, Obstacle)> {
        let (first, others) = self.rows.claims.split_first();
        let (first, others) = (Arc::clone(first), others.to_vec());
        let mut locks =
            NonEmpty::new((Arc::clone(&first), self.acquire_one(0, &first, end).await?));
        for (number, claim) in (1..).zip(others) {
            let token = self.acquire_one(number, &claim, end).await?;
            locks.push((claim, token));
        }
        Ok(locks)
    }

    async fn acquire_one(
        &mut self,
        number: usize,
        claim: &LeaseClaim,
        end: Instant,
    ) -> Result<Token, (usize, Obstacle)> {
        let fault = |fault| Err((number, Obstacle::Fault(fault)));
        // The caller has given up.
        if Instant::now() >= end {
            return fault(Fault::TimedOut);
        }
        self.asked = number + 1;
        match self.rows.table.acquire(claim, self.rows.budget).await {
            Ok(AcquireAnswer::Granted(token)) => Token::try_from(token)
                .or_else(|error| fault(Fault::InvalidReply(format!("token {token}: {error}")))),
            Ok(AcquireAnswer::Held { left, shared, holder }) => {
                // There is nothing to release in this row.
                self.asked = number;
                let retry_after = Duration::from_millis(u64::try_from(left).unwrap_or(0));
                let holder = holder.as_deref().and_then(Holder::read);
                Err((number, Obstacle::Held { retry_after, shared, holder }))
            }
            Err(cause) => {
                // No statement was sent.
                if matches!(cause, Fault::Unreachable(_)) {
                    self.asked = number;
                }
                fault(cause)
            }
        }
    }
}

impl<DB: Database> Drop for ReleaseOnDrop<DB> {
    fn drop(&mut self) {
        let mut statements = std::mem::take(&mut self.statements);
        statements.truncate(self.asked);
        if !statements.is_empty() {
            drop(self.rows.release(statements, Duration::ZERO));
        }
    }
}
