use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument;

use super::backend::{AcquireAnswer, Claim, Database};
use super::held::HeldRow;
use super::in_flight::InFlightStatement;
use super::table::LeaseTable;
use crate::lock::AcquireError;
use crate::lock::held_lock::Grant;
use crate::lock::settings::Terms;
use crate::protocol::{Fault, Owner};
use crate::random;
use crate::resource::Resource;
use crate::token::Token;

/// One attempt. Dropped at any await point, or lost, it takes the row back.
///
/// The statement runs in a task of its own, which is not dropped with the attempt: a
/// release that overtook it would find nothing to release.
pub(super) async fn attempt<DB: Database>(
    table: &Arc<LeaseTable<DB>>,
    resource: &Resource,
    terms: Terms,
    budget: Duration,
) -> Result<Grant, AcquireError> {
    let end = Instant::now() + budget;
    // What this process has on its way goes first, unless that hangs.
    let _ = timeout(budget / 2, table.in_flight().clear(resource)).await;
    let owner = Owner(random::u128());
    let claim = Arc::new(Claim::new(resource, owner, terms.ttl + terms.lock_delay, budget));
    let (sender, answer) = oneshot::channel();
    let mut release_on_drop = ReleaseOnDrop {
        table: Arc::clone(table),
        claim,
        runtime: Handle::current(),
        budget,
        in_flight_statement: Some(table.in_flight().enter(resource)),
    };
    // Before the database is asked: its expiry counts from a later moment.
    let start = table.clock().now();
    let take = async move {
        let outcome = release_on_drop.table.acquire(&release_on_drop.claim, budget).await;
        // Nothing to take back.
        if let Ok(AcquireAnswer::Held(_)) | Err(Fault::Unreachable(_)) = outcome {
            release_on_drop.in_flight_statement = None;
        }
        // If nobody listens any more, or ceases to before it is read, it is dropped.
        let _ = sender.send((outcome, release_on_drop));
    };
    tokio::spawn(take.in_current_span());
    let fault = match timeout_at(end, answer).await {
        Ok(Ok((Ok(AcquireAnswer::Granted(token)), release_on_drop))) => {
            let deadline = start + (terms.ttl - terms.drift);
            match Token::try_from(token) {
                Ok(token) if table.clock().now() < deadline => {
                    let holder = Arc::new(HeldRow::new(release_on_drop, token, terms));
                    return Ok(Grant { token, deadline, holder });
                }
                Ok(_) => Fault::TooLate,
                Err(error) => Fault::Nonsense(format!("token {token}: {error}")),
            }
        }
        Ok(Ok((Ok(AcquireAnswer::Held(left)), _))) => {
            let retry_after = Duration::from_millis(u64::try_from(left).unwrap_or(0));
            return Err(AcquireError::Held { resource: resource.clone(), retry_after });
        }
        Ok(Ok((Ok(AcquireAnswer::Overtaken), _))) => {
            Fault::Nonsense("neither granted nor held".into())
        }
        Ok(Ok((Err(fault), _))) => fault,
        Ok(Err(_)) => Fault::Disconnected("the runtime is gone".into()),
        Err(_) => Fault::TimedOut,
    };
    let (resource, causes) = (resource.clone(), table.cause(fault));
    Err(AcquireError::NoQuorum { resource, needed: 1, granted: 0, causes })
}

/// Releases when it is dropped, unless there is nothing under way any more.
pub(super) struct ReleaseOnDrop<DB: Database> {
    pub(super) table: Arc<LeaseTable<DB>>,
    pub(super) claim: Arc<Claim>,
    pub(super) runtime: Handle,
    pub(super) budget: Duration,
    pub(super) in_flight_statement: Option<InFlightStatement>,
}

impl<DB: Database> Drop for ReleaseOnDrop<DB> {
    fn drop(&mut self) {
        if let Some(in_flight_statement) = self.in_flight_statement.take() {
            drop(self.table.release(&self.runtime, &self.claim, self.budget, in_flight_statement));
        }
    }
}
