use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use fencing::lock::{Loss, ReleaseError, Released, RenewError};
use fencing::{Lease, Sequencer};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

/// The leases that clients hold through this process, by ids that nobody can guess. Nobody renews them
/// but their clients.
pub(super) struct Table {
    leases: std::sync::Mutex<HashMap<String, Arc<Entry>>>,
    places: Arc<Semaphore>,
}

/// A place for one lease.
pub(super) type Place = OwnedSemaphorePermit;

/// One lease, until it is released.
struct Entry {
    lease: Mutex<Option<Lease>>,
    sequencer: Sequencer,
    ttl: Duration,
    _place: Place,
}

/// What a client is told of its lease.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) id: String,
    pub(super) sequencer: Sequencer,
    pub(super) ttl: Duration,
    pub(super) valid_for: Duration,
}

/// Why a renewal failed.
pub(super) enum NotRenewed {
    /// There is no such lease, or it is over for this reason.
    Over(Option<Loss>),
    /// Too few nodes answered. It lasts for this long.
    Failed(Duration),
}

impl Table {
    pub(super) fn new(most: usize) -> Arc<Table> {
        Arc::new(Table {
            leases: std::sync::Mutex::default(),
            places: Arc::new(Semaphore::new(most)),
        })
    }

    /// Reserves a place for one lease, if there is one.
    pub(super) fn place(&self) -> Option<Place> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Keeps a lease until it is released or over, and returns what its client is told.
    pub(super) fn keep(
        self: &Arc<Table>,
        lease: Lease,
        ttl: Duration,
        place: Place,
    ) -> Result<Shown, getrandom::Error> {
        let id = random_id()?;
        let (sequencer, valid_for, lost) = (lease.sequencer(), lease.valid_for(), lease.lost());
        let (resource, token) = (sequencer.resource.clone(), sequencer.token);
        let shown = Shown { id: id.clone(), sequencer: sequencer.clone(), ttl, valid_for };
        let entry = Entry { lease: Mutex::new(Some(lease)), sequencer, ttl, _place: place };
        self.entries().insert(id.clone(), Arc::new(entry));
        let table = Arc::downgrade(self);
        tokio::spawn(async move {
            let loss = lost.await;
            // The watchdog does this for leases that it renews.
            if loss != Loss::Released {
                tracing::warn!(%resource, %token, %loss, "lease lost");
                metrics::counter!("fencing_leases_lost_total").increment(1);
            }
            if let Some(table) = table.upgrade() {
                table.forget(&id);
            }
        });
        self.count();
        Ok(shown)
    }

    /// Shows a lease, if it is not over.
    pub(super) async fn show(&self, id: &str) -> Option<Shown> {
        let entry = self.find(id)?;
        let lease = entry.lease.lock().await;
        let valid_for = lease.as_ref()?.valid_for();
        (!valid_for.is_zero()).then(|| entry.shown(id, valid_for))
    }

    /// Renews a lease for its TTL.
    pub(super) async fn renew(&self, id: &str) -> Result<Shown, NotRenewed> {
        let entry = self.find(id).ok_or(NotRenewed::Over(None))?;
        let lease = entry.lease.lock().await;
        let lease = lease.as_ref().ok_or(NotRenewed::Over(None))?;
        match lease.renew().await {
            Ok(valid_for) => Ok(entry.shown(id, valid_for)),
            Err(RenewError::Lost(lost)) => Err(NotRenewed::Over(Some(lost.loss))),
            Err(error) => {
                tracing::warn!(%error, "lease not renewed");
                Err(NotRenewed::Failed(lease.valid_for()))
            }
        }
    }

    /// Releases a lease. Returns `None` if there is none.
    pub(super) async fn release(&self, id: &str) -> Option<Result<Released, ReleaseError>> {
        let entry = self.remove(id)?;
        // A renewal may be on its way.
        let lease = entry.lease.lock().await.take()?;
        Some(lease.release().await)
    }

    /// Drops a lease, which sends the release if it is not over, and does not wait for it.
    pub(super) fn forget(&self, id: &str) {
        drop(self.remove(id));
    }

    fn remove(&self, id: &str) -> Option<Arc<Entry>> {
        let entry = self.entries().remove(id);
        self.count();
        entry
    }

    fn find(&self, id: &str) -> Option<Arc<Entry>> {
        self.entries().get(id).cloned()
    }

    fn count(&self) {
        let leases = self.entries().len();
        metrics::gauge!("fencing_serve_leases").set(leases as f64);
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Entry>>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn shown(&self, id: &str, valid_for: Duration) -> Shown {
        let (id, sequencer) = (id.to_owned(), self.sequencer.clone());
        Shown { id, sequencer, ttl: self.ttl, valid_for }
    }
}

/// Nobody can guess another client's lease.
fn random_id() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}
