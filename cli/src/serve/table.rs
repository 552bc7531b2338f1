use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use fencing::lock::{LeaseTicket, Loss};
use fencing::{Lease, Sequencer};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use super::clients::Place;
use crate::listen::Counted;
use crate::signing::SigningKeys;

/// The leases that this process has granted or renewed, by ids that cannot be guessed. Only their clients renew them,
/// and with sealed ids perhaps through another process.
#[derive(Default)]
pub(super) struct Table(Mutex<HashMap<String, Arc<Entry>>>);

/// A lease of which this process knows when it ends, unless another process renews it.
pub(super) struct Entry {
    pub(super) known: KnownLease,
    pub(super) lease: AsyncMutex<Option<Lease>>,
    _place: Counted<Place>,
}

/// What the id of a lease says, to this process or with its keys to each.
#[derive(Clone)]
pub(super) struct KnownLease {
    pub(super) id: String,
    /// The name of the client that has acquired it.
    pub(super) client: String,
    pub(super) sequencer: Sequencer,
    pub(super) ttl: Duration,
    /// With it, another process may renew and release the lease.
    pub(super) ticket: Option<LeaseTicket>,
}

impl KnownLease {
    /// Makes the id of a lease: sealed, if there are keys and the back end lets other processes go on with it.
    pub(super) fn new(
        lease: &Lease,
        ttl: Duration,
        client: &str,
        keys: Option<&SigningKeys>,
    ) -> Result<KnownLease, getrandom::Error> {
        let ticket = keys.and_then(|keys| Some((lease.ticket()?, keys)));
        let id = match &ticket {
            Some((ticket, keys)) => keys.seal(&format!("{client}\n{ticket}"))?,
            None => format!("{:016x}{:016x}", getrandom::u64()?, getrandom::u64()?),
        };
        let (client, ticket) = (client.to_owned(), ticket.map(|(ticket, _)| ticket));
        Ok(KnownLease { id, client, sequencer: lease.sequencer(), ttl, ticket })
    }

    pub(super) fn unseal(id: &str, keys: &SigningKeys) -> Option<KnownLease> {
        let text = keys.unseal(id)?;
        let (client, ticket) = text.split_once('\n')?;
        let ticket: LeaseTicket = ticket.parse().ok()?;
        let (id, client, sequencer, ttl) = (id.to_owned(), client.to_owned(), ticket.sequencer.clone(), ticket.ttl);
        Some(KnownLease { id, client, sequencer, ttl, ticket: Some(ticket) })
    }
}

impl Drop for Entry {
    /// Another process may have renewed it.
    fn drop(&mut self) {
        if let Some(lease) = self.lease.get_mut().take().filter(|_| self.known.ticket.is_some()) {
            lease.leave();
        }
    }
}

impl Table {
    /// Keeps a lease until it is released or over, or another process goes on with it.
    pub(super) fn keep(self: &Arc<Table>, known: KnownLease, lease: Lease, place: Place) {
        let (id, lost) = (known.id.clone(), lease.lost());
        let entry = Arc::new(Entry {
            lease: AsyncMutex::new(Some(lease)),
            known: known.clone(),
            _place: Counted::new("fencing_serve_leases", place),
        });
        let (table, kept) = (Arc::downgrade(self), Arc::downgrade(&entry));
        let before = self.0.lock().insert(id, entry);
        drop(before);
        tokio::spawn(async move {
            let loss = lost.await;
            // The watchdog does this for leases that it renews.
            if loss == Loss::Superseded || loss == Loss::Expired && known.ticket.is_none() {
                let Sequencer { resource, token, .. } = &known.sequencer;
                tracing::warn!(client = known.client, %resource, %token, %loss, "lease lost");
                metrics::counter!("fencing_leases_lost_total").increment(1);
            }
            // It may have been renewed through another process, and kept anew.
            if let Some(table) = table.upgrade()
                && table.find(&known.id).is_some_and(|entry| kept.as_ptr() == Arc::as_ptr(&entry))
            {
                table.remove(&known.id);
            }
        });
    }

    /// Returns a guard for the answer with this lease, which may never reach the client.
    pub(super) fn unread(self: &Arc<Table>, id: &str) -> Unread {
        Unread { table: Arc::clone(self), id: Some(id.to_owned()) }
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Entry>> {
        self.0.lock().get(id).cloned()
    }

    /// Removes a lease. If that drops it, its release is sent, and not waited for, unless another process may have it.
    pub(super) fn remove(&self, id: &str) -> Option<Arc<Entry>> {
        self.0.lock().remove(id)
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
        if let Some(entry) = self.id.as_ref().and_then(|id| self.table.remove(id))
            && let Ok(mut lease) = entry.lease.try_lock()
        {
            drop(lease.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::clients::Clients;
    use fencing::Resource;
    use fencing::lock::ConnectOptions;
    use http::HeaderMap;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_lease_of_which_its_client_does_not_hear_is_released() {
        let lock = ConnectOptions::new("memory:").renew(false).connect().await.unwrap();
        let (table, resource) = (Arc::<Table>::default(), Resource::new("a").unwrap());
        let places = Arc::new(Semaphore::new(2));
        let caller = Clients::open(None).unwrap().find(&HeaderMap::new()).ok().unwrap();
        let ttl = Duration::from_secs(10);
        let answered = async || {
            let lease = lock.acquire(&resource).await.unwrap();
            let known = KnownLease::new(&lease, ttl, "a", None).unwrap();
            let (id, unread) = (known.id.clone(), table.unread(&known.id));
            table.keep(known, lease, caller.count_lease(&places).ok().unwrap());
            (id, unread.until_read(Body::from("a")))
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
