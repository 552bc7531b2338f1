use std::sync::Arc;
use std::time::Duration;

use super::held_lock::Renewed;
use super::holding::Holding;
use super::sleep::sleep_until;
use crate::random::jitter;

/// Renews each third of the TTL, sooner after a failure, and stops for good when the lease is
/// over or can't become longer. The lease aborts it at release.
pub(super) async fn run(holding: Arc<Holding>, ttl: Duration) {
    let standing = &holding.standing;
    let third = ttl / 3;
    let mut pause = third;
    loop {
        let Ok(deadline) = standing.deadline() else { return };
        let next = (standing.clock().now() + pause).min(deadline);
        sleep_until(standing.clock(), next).await;
        // The lease's owner may have renewed it meanwhile.
        let Ok(deadline) = standing.deadline() else { return };
        let now = standing.clock().now();
        if now >= deadline {
            return holding.lose(standing.loss_at(deadline));
        }
        if standing.is_last(deadline) {
            pause = deadline.since(now);
            continue;
        }
        let renewed = tokio::select! {
            biased;
            () = sleep_until(standing.clock(), deadline) => continue,
            renewed = holding.renew() => renewed,
        };
        pause = third;
        if let Renewed::Failed(causes) = renewed {
            let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
            let (resource, token) = (&holding.resource, holding.token);
            tracing::warn!(%resource, %token, ?causes, "lease not renewed yet");
            metrics::counter!("fencing_renewals_failed_total").increment(1);
            pause = third / 8 + jitter(third / 8);
        }
    }
}
