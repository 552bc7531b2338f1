//! Several resources in one call: any of them, or all of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fencing_protocol::Resource;
use tokio::time::Instant;

use super::backend::{Ask, LockBackend};
use super::counted::waited;
use super::service::{Service, record};
use super::wait::groups::Wanted;
use super::{AcquireError, Lease, LeaseSet};

impl<B: LockBackend> Service<B> {
    /// Acquires the first of the resources that is free, or becomes free.
    pub(super) async fn acquire_any(&self, resources: &[Resource]) -> Result<Lease, AcquireError> {
        let wanted = Wanted::any(resources)?;
        resources.first().map_or(Ok(()), |first| self.runtime(first))?;
        let (end, again) = (Instant::now() + self.settings.wait, AtomicBool::new(false));
        // The first round is about all of them, the others are over with the wait.
        let round = || {
            let end = again.swap(true, Ordering::Relaxed).then_some(end);
            self.first_free(resources, end)
        };
        waited(self.groups().acquire(wanted, &self.settings, round)).await
    }

    /// Acquires all of the resources.
    pub(super) async fn acquire_all(
        &self,
        resources: &[Resource],
    ) -> Result<LeaseSet, AcquireError> {
        let wanted = Wanted::all(resources)?;
        let resources = Arc::clone(wanted.resources());
        resources.first().map_or(Ok(()), |first| self.runtime(first))?;
        let obstacle = Mutex::new(None);
        let attempt = || self.attempt_all(&resources, &obstacle);
        waited(self.groups().acquire(wanted, &self.settings, attempt)).await
    }

    /// Asks for each in its order until the end, and returns the first that is free. A fault outweighs
    /// that another client holds the others: the one with the fault may be free.
    async fn first_free(
        &self,
        resources: &[Resource],
        end: Option<Instant>,
    ) -> Result<Lease, AcquireError> {
        let mut error = AcquireError::of_count(0);
        for (number, resource) in resources.iter().enumerate() {
            if number > 0 && end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            match self.attempt(resource, Ask::ONCE).await {
                Ok(lease) => return Ok(lease),
                // It is not about one of them: the others would wait as long, and for nothing.
                Err(all @ (AcquireError::Overloaded { .. } | AcquireError::Unavailable { .. })) => {
                    return Err(all);
                }
                Err(next) if number == 0 => error = next,
                Err(next) => error = graver(error, next),
            }
        }
        Err(error)
    }

    /// Makes one attempt for all. It begins with the one that was in the way the last time: a back
    /// end that asks for one after another then takes none of the others in vain.
    async fn attempt_all(
        &self,
        resources: &[Resource],
        obstacle: &Mutex<Option<Resource>>,
    ) -> Result<LeaseSet, AcquireError> {
        let mut order = resources.to_vec();
        if let Some(first) = &*obstacle.lock().unwrap_or_else(PoisonError::into_inner) {
            order.sort_by_key(|resource| resource != first);
        }
        let clock = Arc::clone(self.backend.clock());
        let start = clock.now();
        let outcome = self.backend.attempt_all(&order, &self.settings).await;
        record(clock.now().since(start), outcome.as_ref().err());
        if let Err(AcquireError::Held { resource, .. }) = &outcome {
            *obstacle.lock().unwrap_or_else(PoisonError::into_inner) = Some(resource.clone());
        }
        let (asked, watchdogs) = ((start, &self.settings), self.watchdogs());
        LeaseSet::new(&order, outcome?, clock, asked, self.queues(), watchdogs)
    }
}

/// Returns the error that says more: a fault, or which of the locks may be free soonest.
fn graver(one: AcquireError, other: AcquireError) -> AcquireError {
    match (&one, &other) {
        (
            AcquireError::Held { retry_after, .. },
            AcquireError::Held { retry_after: sooner, .. },
        ) if sooner < retry_after => other,
        (AcquireError::Held { .. }, AcquireError::Held { .. }) => one,
        (AcquireError::Held { .. }, _) => other,
        _ => one,
    }
}
