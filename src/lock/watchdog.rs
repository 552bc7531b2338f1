use std::sync::Arc;
use std::time::Duration;

use super::held_lock::Renewed;
use super::holding::Holding;
use super::seldom::Seldom;
use super::sleep::sleep_until;
use super::standing::Loss;
use crate::random::jitter;

/// Renews each third of the TTL, sooner after a failure, until the lease is over, and says so in
/// log and metrics. The lease aborts it at release.
pub(super) async fn run(holding: Arc<Holding>, ttl: Duration) {
    let loss = keep(&holding, ttl).await;
    if loss != Loss::Released {
        let (resource, token) = (&holding.resource, holding.token);
        tracing::warn!(%resource, %token, %loss, "lease lost");
        metrics::counter!("fencing_leases_lost_total").increment(1);
    }
}

async fn keep(holding: &Holding, ttl: Duration) -> Loss {
    let standing = &holding.standing;
    let third = ttl / 3;
    let (mut pause, mut warnings) = (third, Seldom::default());
    loop {
        let deadline = match standing.deadline() {
            Ok(deadline) => deadline,
            Err(loss) => return loss,
        };
        if standing.is_last(deadline) {
            return standing.over().await;
        }
        let next = (standing.clock().now() + pause).min(deadline);
        sleep_until(standing.clock(), next).await;
        // The lease's owner may have renewed it meanwhile.
        let deadline = match standing.deadline() {
            Ok(deadline) => deadline,
            Err(loss) => return loss,
        };
        let renewed = tokio::select! {
            biased;
            () = sleep_until(standing.clock(), deadline) => continue,
            renewed = holding.renew() => renewed,
        };
        pause = third;
        if let Renewed::Failed(causes) = renewed {
            let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
            let (resource, token) = (&holding.resource, holding.token);
            if let Some(suppressed) = warnings.next() {
                tracing::warn!(%resource, %token, ?causes, suppressed, "lease not renewed yet");
            }
            metrics::counter!("fencing_renewals_failed_total").increment(1);
            pause = third / 8 + jitter(third / 8);
        }
    }
}
