use std::fmt;
use std::future::Future;
use std::time::Duration;

use fencing_protocol::{Resource, Token};

use super::error::{LeaseLost, ReleaseError, Released, RenewError};
use super::lease::Lease;
use super::standing::Loss;
use crate::sequencer::{HeldToken, Sequencer};

/// A part in a lock that several share, from [`acquire_shared`](super::Lock::acquire_shared): nobody
/// holds the lock alone meanwhile.
///
/// It is renewed, lost and released as a [`Lease`] is, each part by itself. It is a type of its own, so
/// that code that must hold the lock alone, and asks for a [`Lease`], cannot take it. When you drop it, it
/// sends the release and does not wait for an answer.
///
/// **Fencing.** The token is larger than that of every lease before that held the lock alone, and smaller
/// than that of each one after. Those who share the lock have equal tokens where the counts of the nodes
/// agree, and may have different ones where they do not. So a storage that compares tokens refuses a
/// reader once a later writer has written. It does not fence the writes of readers against each other. If
/// your token is smaller than another reader's, the storage may refuse you after that reader has written:
/// acquire again.
#[must_use = "a lease that is dropped is released"]
pub struct SharedLease(Lease);

impl fmt::Debug for SharedLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLease")
            .field("resource", self.resource())
            .field("token", &self.token())
            .field("valid_for", &self.valid_for())
            .finish_non_exhaustive()
    }
}

impl SharedLease {
    /// Takes a lease that was asked for in shared mode.
    pub(super) fn new(lease: Lease) -> SharedLease {
        SharedLease(lease)
    }

    /// Returns the fencing token.
    #[must_use]
    pub fn token(&self) -> Token {
        self.0.token()
    }

    /// Returns the token together with the resource that it was issued for.
    #[must_use]
    pub fn sequencer(&self) -> Sequencer {
        self.0.sequencer()
    }

    /// Returns what is shared.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        self.0.resource()
    }

    /// Returns how long the lease lasts from now unless it is renewed; zero when it is over.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.0.valid_for()
    }

    /// Waits until the lease is over, and returns why, as [`Lease::lost`] does.
    ///
    /// # Cancel safety
    /// You may await any number of these, and drop them.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        self.0.lost()
    }

    /// Runs `work` and drops it the moment the lease is lost.
    ///
    /// # Errors
    /// [`LeaseLost`] if the lease was over first. The work may have been done in part.
    ///
    /// # Cancel safety
    /// If you drop the future, it drops the work. The lease stays.
    ///
    /// **Fencing.** A request that the work has already sent may still arrive: give it the token.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LeaseLost> {
        self.0.run(work).await
    }

    /// Renews the lease once, now, as [`Lease::renew`] does.
    ///
    /// # Errors
    /// [`RenewError`].
    ///
    /// # Cancel safety
    /// As for [`Lease::renew`].
    pub async fn renew(&self) -> Result<Duration, RenewError> {
        self.0.renew().await
    }

    /// Releases this part. The lock is free when the last part is gone.
    ///
    /// # Errors
    /// [`ReleaseError`] if too few servers answered to know whether it is released; the part is gone by
    /// the end of its TTL.
    ///
    /// # Cancel safety
    /// Once you have polled the future, the release is sent and goes on without it.
    pub async fn release(self) -> Result<Released, ReleaseError> {
        self.0.release().await
    }
}

impl HeldToken for SharedLease {
    fn held(&self) -> Option<Sequencer> {
        self.0.held()
    }
}
