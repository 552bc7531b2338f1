//! Locks that several share.

use fencing_protocol::{Mode, Resource};

use super::backend::{Ask, LockBackend};
use super::counted::waited;
use super::service::Service;
use super::{AcquireError, SharedLease};

impl<B: LockBackend> Service<B> {
    /// Acquires a part in the lock. The first attempt takes no turn in the queue: many may share the
    /// lock, and each would wait for the answer to the one before. It is left out where the last release
    /// was told to another process, which is to come first.
    pub(super) async fn acquire_shared(
        &self,
        resource: &Resource,
    ) -> Result<SharedLease, AcquireError> {
        self.runtime(resource)?;
        let attempt = || self.attempt(resource, Ask { mode: Mode::Shared, waits: None });
        let waits = !self.settings.wait.is_zero();
        let acquired = async {
            if !waits || !self.backend.has_remote_waiters(resource) {
                match attempt().await {
                    Err(_) if waits => {}
                    outcome => return outcome,
                }
            }
            let asked = (&self.backend, resource, &self.settings);
            self.queues().acquire(asked, Mode::Shared, attempt).await
        };
        waited(acquired).await.map(SharedLease::new)
    }

    /// Makes one attempt, and more only while servers start for the first time.
    pub(super) async fn try_acquire_shared(
        &self,
        resource: &Resource,
    ) -> Result<SharedLease, AcquireError> {
        self.once(resource, Mode::Shared).await.map(SharedLease::new)
    }
}
