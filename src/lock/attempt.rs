use std::sync::Arc;

use super::held_lock::Grant;
use super::settings::Settings;
use super::{AcquireError, Lease};
use crate::resource::Resource;
use crate::time::Clock;

/// Makes one attempt, tells log and metrics of it, and makes its grant a lease.
#[tracing::instrument(name = "fencing.acquire", level = "debug", skip_all, fields(%resource))]
pub(super) async fn attempt(
    resource: &Resource,
    clock: &Arc<dyn Clock>,
    settings: &Settings,
    attempt: impl Future<Output = Result<Grant, AcquireError>>,
) -> Result<Lease, AcquireError> {
    let start = clock.now();
    let outcome = attempt.await;
    let label = match &outcome {
        Ok(grant) => {
            tracing::debug!(token = %grant.token, "lease acquired");
            "acquired"
        }
        Err(error) => {
            tracing::debug!(%error, "lease not acquired");
            error.label()
        }
    };
    let elapsed = clock.now().since(start);
    metrics::counter!("fencing_attempts_total", "outcome" => label).increment(1);
    metrics::histogram!("fencing_attempt_seconds", "outcome" => label).record(elapsed);
    Ok(Lease::new(resource.clone(), outcome?, Arc::clone(clock), settings.keeping()))
}
