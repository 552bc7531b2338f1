use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use fencing::lock::{Loss, ReleaseError, Released, RenewError};
use fencing::{Lease, Sequencer};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore};

use crate::listen::Counted;

/// The leases that clients hold through this process, by ids that cannot be guessed. Only their clients renew
/// them.
pub(super) struct Table {
    leases: Mutex<HashMap<String, Arc<Entry>>>,
    permits: Arc<Semaphore>,
}

/// One lease, until it is released.
struct Entry {
    lease: AsyncMutex<Option<Lease>>,
    sequencer: Sequencer,
    ttl: Duration,
    _permit: Counted<OwnedSemaphorePermit>,
}

/// A lease as its client sees it.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) id: String,
    pub(super) sequencer: Sequencer,
    pub(super) ttl: Duration,
    pub(super) valid_for: Duration,
}

/// An error of a renewal.
pub(super) enum NotRenewed {
    /// There is no such lease, or it has ended for this reason.
    Over(Option<Loss>),
    /// Too few nodes answered. It lasts for this long.
    Failed(Duration),
}

impl Table {
    pub(super) fn new(most: usize) -> Arc<Table> {
        Arc::new(Table { leases: Mutex::default(), permits: Arc::new(Semaphore::new(most)) })
    }

    /// Reserves a permit for one lease, if there is one.
    pub(super) fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// Keeps a lease until it is released or over. The guard belongs into the answer, which may never reach the
    /// client.
    pub(super) fn keep(
        self: &Arc<Table>,
        lease: Lease,
        ttl: Duration,
        permit: OwnedSemaphorePermit,
    ) -> Result<(Shown, Unread), getrandom::Error> {
        let id = random_id()?;
        let (sequencer, valid_for, lost) = (lease.sequencer(), lease.valid_for(), lease.lost());
        let shown = Shown { id: id.clone(), sequencer: sequencer.clone(), ttl, valid_for };
        let (lease, held) = (AsyncMutex::new(Some(lease)), sequencer.clone());
        let permit = Counted::new("fencing_serve_leases", permit);
        let entry = Entry { lease, sequencer, ttl, _permit: permit };
        self.leases.lock().insert(id.clone(), Arc::new(entry));
        let table = Arc::downgrade(self);
        tokio::spawn(async move {
            let loss = lost.await;
            // The watchdog does this for leases that it renews.
            if loss != Loss::Released {
                tracing::warn!(resource = %held.resource, token = %held.token, %loss, "lease lost");
                metrics::counter!("fencing_leases_lost_total").increment(1);
            }
            if let Some(table) = table.upgrade() {
                table.remove(&id);
            }
        });
        let unread = Unread { table: Arc::clone(self), id: Some(shown.id.clone()) };
        Ok((shown, unread))
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
        // A renewal may be in flight.
        let lease = entry.lease.lock().await.take()?;
        Some(lease.release().await)
    }

    /// Removes a lease. If that drops it, its release is sent, and not waited for.
    fn remove(&self, id: &str) -> Option<Arc<Entry>> {
        self.leases.lock().remove(id)
    }

    fn find(&self, id: &str) -> Option<Arc<Entry>> {
        self.leases.lock().get(id).cloned()
    }
}

impl Entry {
    fn shown(&self, id: &str, valid_for: Duration) -> Shown {
        let (id, sequencer) = (id.to_owned(), self.sequencer.clone());
        Shown { id, sequencer, ttl: self.ttl, valid_for }
    }
}

/// Guard of a lease that its client does not know yet. Dropped, it releases the lease: the client has gone away before
/// it read the answer.
pub(super) struct Unread {
    table: Arc<Table>,
    id: Option<String>,
}

impl Unread {
    /// Keeps the lease once this answer is read.
    pub(super) fn until_read(mut self, answer: Body) -> Body {
        Body::new(answer.map_frame(move |frame| {
            let _ = self.id.take();
            frame
        }))
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.table.remove(id);
        }
    }
}

/// Returns an id that no other client can guess.
fn random_id() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use fencing::Resource;
    use fencing::lock::ConnectOptions;

    use super::*;

    #[tokio::test]
    async fn a_lease_of_which_its_client_does_not_hear_is_released() {
        let lock = ConnectOptions::new("memory:").renew(false).connect().await.unwrap();
        let (table, resource) = (Table::new(2), Resource::new("a").unwrap());
        let ttl = Duration::from_secs(10);
        let answered = async || {
            let lease = lock.acquire(&resource).await.unwrap();
            let (shown, unread) = table.keep(lease, ttl, table.permit().unwrap()).unwrap();
            (shown.id, unread.until_read(Body::from("a")))
        };
        let (id, unread) = answered().await;
        drop(unread);
        assert!(table.show(&id).await.is_none());
        let (id, read) = answered().await;
        assert_eq!(read.collect().await.unwrap().to_bytes(), "a");
        assert!(table.show(&id).await.is_some());
        lock.try_acquire(&resource).await.unwrap_err();
    }
}
