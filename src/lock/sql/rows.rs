use std::time::Duration;

use fencing_protocol::Fault;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Instrument;

use super::in_flight::InFlightStatement;
use super::row::LeaseRow;
use crate::database::Database;

/// Releases rows in a task of its own, one after another, and reports the worst outcome of the first
/// tries: a fault, or that one was not held any more.
pub(super) fn release_rows<DB: Database>(
    rows: Vec<LeaseRow<DB>>,
    statements: Vec<InFlightStatement>,
    rest: Duration,
) -> oneshot::Receiver<Result<bool, Fault>> {
    let (sender, answer) = oneshot::channel();
    let Some(runtime) = rows.first().map(LeaseRow::runtime) else { return answer };
    let end = Instant::now() + rest;
    let release = async move {
        let mut worst = Ok(true);
        for (row, statement) in rows.iter().zip(statements) {
            let rest = end.saturating_duration_since(Instant::now());
            // Each goes on by itself if its first try fails.
            let released = row.release(statement, rest).await;
            let gone = || Err(Fault::Disconnected("the runtime is gone".into()));
            match (&worst, released.unwrap_or_else(|_| gone())) {
                (Ok(all), Ok(held)) => worst = Ok(*all && held),
                (Ok(_), Err(fault)) => worst = Err(fault),
                (Err(_), _) => {}
            }
        }
        let _ = sender.send(worst);
    };
    runtime.spawn(release.in_current_span());
    answer
}
