use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Mode, Resource, Terms, Token};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument;

use super::held::HeldRow;
use super::in_flight::InFlightStatement;
use super::row::LeaseRow;
use super::table::LeaseTable;
use crate::database::{AcquireAnswer, Claim, Database};
use crate::lock::held_lock::Grant;
use crate::lock::wait::backoff::Drains;
use crate::lock::{AcquireError, Holder};

/// Makes one attempt. Dropped at any await point, or lost, it releases the row. Where others share the
/// row that it asks for alone, nobody joins them for as long as it `drains`.
///
/// The statement runs in a task of its own, which is not dropped with the attempt: a
/// release that overtook it would find nothing to release.
pub(super) async fn attempt<DB: Database>(
    table: &Arc<LeaseTable<DB>>,
    resource: &Resource,
    (mode, drains): (Mode, Option<Drains>),
    terms: Terms,
    budget: Duration,
) -> Result<Grant, AcquireError> {
    let end = Instant::now() + budget;
    // What this process has on its way goes first, unless that hangs.
    let _ = timeout(budget / 2, table.in_flight().clear(resource)).await;
    let claim = Claim::new(resource, table.owner(), terms.closed_for(), budget);
    let row = LeaseRow::new(table, claim.shared(mode == Mode::Shared), budget);
    let mut asked = ReleaseOnDrop { statement: Some(row.enter()), row: row.clone() };
    let (sender, answer) = oneshot::channel();
    // Before the database is asked: its expiry counts from a later moment.
    let start = table.clock().now();
    let acquire = async move {
        let outcome = asked.row.table.acquire(&asked.row.claim, budget).await;
        // There is nothing to release.
        if let Ok(AcquireAnswer::Held { .. }) | Err(Fault::Unreachable(_)) = outcome {
            asked.statement = None;
        }
        // If the caller has given up, or does before it reads this, it is dropped.
        let _ = sender.send((outcome, asked));
    };
    tokio::spawn(acquire.in_current_span());
    let fault = match timeout_at(end, answer).await {
        Ok(Ok((Ok(AcquireAnswer::Granted(token)), mut asked))) => {
            let deadline = terms.deadline(start);
            match Token::try_from(token) {
                Ok(token) if table.clock().now() < deadline => {
                    // From now on the lease releases.
                    asked.statement = None;
                    return Ok(Grant {
                        token,
                        deadline,
                        held: Arc::new(HeldRow { row, token, terms }),
                    });
                }
                Ok(_) => Fault::TooLate,
                Err(error) => Fault::Nonsense(format!("token {token}: {error}")),
            }
        }
        Ok(Ok((Ok(AcquireAnswer::Held { left, shared, holder }), _))) => {
            if let Some(drains) = drains.filter(|_| shared) {
                table.drain(resource, drains.lasting(), budget);
            }
            let retry_after = Duration::from_millis(u64::try_from(left).unwrap_or(0));
            let holder = holder.as_deref().and_then(Holder::read);
            return Err(AcquireError::Held { resource: resource.clone(), retry_after, holder });
        }
        Ok(Ok((Ok(AcquireAnswer::Overtaken), _))) => {
            Fault::Nonsense("neither granted nor held".into())
        }
        Ok(Ok((Err(fault), _))) => fault,
        Ok(Err(_)) => Fault::Disconnected("the runtime is gone".into()),
        Err(_) => Fault::TimedOut,
    };
    Err(AcquireError::Unavailable { resource: resource.clone(), cause: table.cause(fault) })
}

/// Releases the row when it is dropped, unless no statement for it is on its way any more.
struct ReleaseOnDrop<DB: Database> {
    row: LeaseRow<DB>,
    statement: Option<InFlightStatement>,
}

impl<DB: Database> Drop for ReleaseOnDrop<DB> {
    fn drop(&mut self) {
        if let Some(statement) = self.statement.take() {
            drop(self.row.release(statement, Duration::ZERO));
        }
    }
}
