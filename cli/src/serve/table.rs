use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use fencing::lock::Loss;
use fencing::{Lease, Sequencer};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore};

use super::clients::{Caller, Denied, InUse, Use};
use crate::listen::Counted;

/// The leases that clients hold through this process, by ids that cannot be guessed. Only their clients renew them.
pub(super) struct Table {
    leases: Mutex<HashMap<String, Arc<Entry>>>,
    permits: Arc<Semaphore>,
}

pub(super) struct Entry {
    pub(super) id: String,
    pub(super) lease: AsyncMutex<Option<Lease>>,
    pub(super) sequencer: Sequencer,
    pub(super) ttl: Duration,
    /// The name of the client that has acquired it.
    pub(super) client: String,
    _in_use: InUse,
    _permit: Counted<OwnedSemaphorePermit>,
}

/// A place in the table, for a lease that is being acquired.
pub(super) struct ReservedPlace {
    client: String,
    in_use: InUse,
    permit: OwnedSemaphorePermit,
}

impl Table {
    pub(super) fn new(most: usize) -> Arc<Table> {
        Arc::new(Table { leases: Mutex::default(), permits: Arc::new(Semaphore::new(most)) })
    }

    /// Reserves a place for a lease of this client.
    pub(super) fn reserve(&self, caller: &Caller) -> Result<ReservedPlace, Denied> {
        let in_use = caller.count(Use::Leases)?;
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_| Denied::Full)?;
        Ok(ReservedPlace { client: caller.name().to_owned(), in_use, permit })
    }

    /// Keeps a lease until it is released or over. The guard belongs into the answer, which may never reach the client.
    pub(super) fn keep(
        self: &Arc<Table>,
        lease: Lease,
        ttl: Duration,
        place: ReservedPlace,
    ) -> Result<(Arc<Entry>, Unread), getrandom::Error> {
        let (id, sequencer, lost) = (random_id()?, lease.sequencer(), lease.lost());
        let entry = Arc::new(Entry {
            id: id.clone(),
            lease: AsyncMutex::new(Some(lease)),
            sequencer: sequencer.clone(),
            ttl,
            client: place.client,
            _in_use: place.in_use,
            _permit: Counted::new("fencing_serve_leases", place.permit),
        });
        self.leases.lock().insert(id.clone(), Arc::clone(&entry));
        let unread = Unread { table: Arc::clone(self), id: Some(id.clone()) };
        let table = Arc::downgrade(self);
        tokio::spawn(async move {
            let loss = lost.await;
            // The watchdog does this for leases that it renews.
            if loss != Loss::Released {
                let Sequencer { resource, token, .. } = &sequencer;
                tracing::warn!(%resource, %token, %loss, "lease lost");
                metrics::counter!("fencing_leases_lost_total").increment(1);
            }
            if let Some(table) = table.upgrade() {
                table.remove(&id);
            }
        });
        Ok((entry, unread))
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Entry>> {
        self.leases.lock().get(id).cloned()
    }

    /// Removes a lease. If that drops it, its release is sent, and not waited for.
    pub(super) fn remove(&self, id: &str) -> Option<Arc<Entry>> {
        self.leases.lock().remove(id)
    }
}

/// Guard of a lease that its client does not know yet. Dropped, it releases the lease: the client has gone away before
/// it read the answer.
pub(super) struct Unread {
    table: Arc<Table>,
    id: Option<String>,
}

impl Unread {
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

fn random_id() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::super::clients::Clients;
    use fencing::Resource;
    use fencing::lock::ConnectOptions;
    use http::HeaderMap;

    use super::*;

    #[tokio::test]
    async fn a_lease_of_which_its_client_does_not_hear_is_released() {
        let lock = ConnectOptions::new("memory:").renew(false).connect().await.unwrap();
        let (table, resource) = (Table::new(2), Resource::new("a").unwrap());
        let caller = Clients::open(None).unwrap().find(&HeaderMap::new()).ok().unwrap();
        let ttl = Duration::from_secs(10);
        let answered = async || {
            let lease = lock.acquire(&resource).await.unwrap();
            let (entry, unread) = table.keep(lease, ttl, table.reserve(&caller).ok().unwrap()).unwrap();
            (entry.id.clone(), unread.until_read(Body::from("a")))
        };
        let (id, unread) = answered().await;
        drop(unread);
        assert!(table.find(&id).is_none());
        let (id, read) = answered().await;
        assert_eq!(read.collect().await.unwrap().to_bytes(), "a");
        assert!(table.find(&id).is_some());
        lock.try_acquire(&resource).await.unwrap_err();
    }
}
