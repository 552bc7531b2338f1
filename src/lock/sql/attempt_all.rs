use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Resource, Terms, Token};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::held_all::HeldRows;
use super::in_flight::InFlightStatement;
use super::row::LeaseRow;
use super::rows::release_rows;
use super::table::LeaseTable;
use crate::database::{AcquireAnswer, Claim, Database};
use crate::lock::held_lock::GrantAll;
use crate::lock::{AcquireError, Holder};

/// Makes one attempt for all of the rows, one after another in the order of the list. It waits for
/// none while it has another, so two clients never wait for each other. Dropped at any await point, or
/// lost, it releases all of them.
///
/// Each row is granted by a statement of its own, which is committed: a transaction of several
/// statements would stay open for as long as its client is stopped in the middle of it.
pub(super) async fn attempt_all<DB: Database>(
    table: &Arc<LeaseTable<DB>>,
    resources: &[Resource],
    terms: Terms,
    budget: Duration,
) -> Result<GrantAll, AcquireError> {
    let Some(first) = resources.first() else { return Err(AcquireError::of_count(0)) };
    let count = u32::try_from(resources.len()).unwrap_or(u32::MAX);
    // The first renewal comes after a third of the TTL and asks for one row after another as well.
    let end = Instant::now() + budget.saturating_mul(count).min(terms.ttl / 3);
    // What this process has on its way goes first, unless that hangs.
    let clear = Instant::now() + budget / 2;
    for resource in resources {
        let _ = timeout_at(clear, table.in_flight().clear(resource)).await;
    }
    let owner = table.owner();
    let row = |resource: &Resource| {
        LeaseRow::new(table, Claim::new(resource, &owner, terms.closed_for(), budget), budget)
    };
    let rows: Vec<LeaseRow<DB>> = resources.iter().map(row).collect();
    let statements = rows.iter().map(LeaseRow::enter).collect();
    let mut asked = ReleaseOnDrop { rows: rows.clone(), asked: 0, statements };
    let (sender, answer) = oneshot::channel();
    // Before the database is asked: its expiry counts from a later moment.
    let start = table.clock().now();
    // In a task of its own, which is not dropped with the attempt: a release that overtook a
    // statement would find nothing to release.
    let acquire = async move {
        let outcome = asked.acquire(budget, end).await;
        // If the caller has given up, or does before it reads this, it is dropped.
        let _ = sender.send((outcome, asked));
    };
    tokio::spawn(acquire.in_current_span());
    let (resource, fault) = match timeout_at(end, answer).await {
        Ok(Ok((Ok(tokens), mut asked))) => {
            let deadline = terms.deadline(start);
            if table.clock().now() < deadline {
                // From now on the lease releases.
                asked.asked = 0;
                let held = Arc::new(HeldRows { rows, tokens: tokens.clone(), terms });
                return Ok(GrantAll { tokens, deadline, held });
            }
            (first, Fault::TooLate)
        }
        Ok(Ok((Err((number, obstacle)), _))) => {
            let resource = resources.get(number).unwrap_or(first);
            match obstacle {
                Obstacle::Held(retry_after, holder) => {
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

/// What stands against one of the rows.
enum Obstacle {
    Held(Duration, Option<Holder>),
    Fault(Fault),
}

/// Releases the rows that were asked for when it is dropped.
struct ReleaseOnDrop<DB: Database> {
    rows: Vec<LeaseRow<DB>>,
    asked: usize,
    statements: Vec<InFlightStatement>,
}

impl<DB: Database> ReleaseOnDrop<DB> {
    /// Asks for one row after another. Returns their tokens, or the number of the row that was not
    /// granted, and why.
    async fn acquire(
        &mut self,
        budget: Duration,
        end: Instant,
    ) -> Result<Vec<Token>, (usize, Obstacle)> {
        let mut tokens = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            let fault = |fault| Err((number, Obstacle::Fault(fault)));
            // Nobody waits for the rest.
            if Instant::now() >= end {
                return fault(Fault::TimedOut);
            }
            self.asked = number + 1;
            let token = match row.table.acquire(&row.claim, budget).await {
                Ok(AcquireAnswer::Granted(token)) => token,
                Ok(AcquireAnswer::Held { left, holder, .. }) => {
                    // There is nothing to release in this row.
                    self.asked = number;
                    let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
                    let holder = holder.as_deref().and_then(Holder::read);
                    return Err((number, Obstacle::Held(left, holder)));
                }
                Ok(AcquireAnswer::Overtaken) => {
                    return fault(Fault::Nonsense("neither granted nor held".into()));
                }
                Err(cause) => {
                    // No statement was sent.
                    if matches!(cause, Fault::Unreachable(_)) {
                        self.asked = number;
                    }
                    return fault(cause);
                }
            };
            match Token::try_from(token) {
                Ok(token) => tokens.push(token),
                Err(error) => return fault(Fault::Nonsense(format!("token {token}: {error}"))),
            }
        }
        Ok(tokens)
    }
}

impl<DB: Database> Drop for ReleaseOnDrop<DB> {
    fn drop(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        rows.truncate(self.asked);
        let mut statements = std::mem::take(&mut self.statements);
        statements.truncate(rows.len());
        drop(release_rows(rows, statements, Duration::ZERO));
    }
}
