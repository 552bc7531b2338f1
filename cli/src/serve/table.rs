use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use fencing::http::attach_sequencer;
use fencing::lock::{LeaseTicket, Loss};
use fencing::{Lease, Sequencer};
use http::header::{CONTENT_LENGTH, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Mutex as AsyncMutex;

use super::JSON;
use super::clients::Slot;
use crate::duration::millis;
use crate::listen::{Gauged, HttpAnswer, gauged, response};
use crate::signing::{SIGNATURE, SigningKeys, random};

/// The leases that this process has granted or renewed, by ids that cannot be guessed. Only their clients renew them,
/// and with sealed ids perhaps through another process.
#[derive(Default)]
pub(super) struct Table(Mutex<HashMap<String, Arc<Entry>>>);

/// A lease of which this process knows when it ends, unless another process renews it.
pub(super) struct Entry {
    pub(super) known: KnownLease,
    pub(super) lease: AsyncMutex<Option<Lease>>,
    _slot: Gauged<Slot>,
}

impl Drop for Entry {
    /// Another process may have renewed it.
    fn drop(&mut self) {
        if let Some(lease) = self.lease.get_mut().take().filter(|_| self.known.ticket.is_some()) {
            lease.leave();
        }
    }
}

/// What the id of a lease says: to this process, or to every process with the keys.
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
    pub(super) fn new(lease: &Lease, ttl: Duration, client: &str, keys: Option<&SigningKeys>) -> Option<KnownLease> {
        let ticket = keys.and_then(|keys| Some((lease.ticket()?, keys)));
        let id = match &ticket {
            Some((ticket, keys)) => keys.seal(&format!("{client}\n{ticket}"))?,
            None => hex::encode(random::<16>()?),
        };
        let (client, ticket) = (client.to_owned(), ticket.map(|(ticket, _)| ticket));
        Some(KnownLease { id, client, sequencer: lease.sequencer(), ttl, ticket })
    }

    pub(super) fn unseal(id: &str, keys: &SigningKeys) -> Option<KnownLease> {
        let text = keys.unseal(id)?;
        let (client, ticket) = text.split_once('\n')?;
        let ticket: LeaseTicket = ticket.parse().ok()?;
        let (id, client, sequencer, ttl) = (id.to_owned(), client.to_owned(), ticket.sequencer.clone(), ticket.ttl);
        Some(KnownLease { id, client, sequencer, ttl, ticket: Some(ticket) })
    }

    pub(super) fn answer(&self, status: StatusCode, left: Duration, keys: Option<&SigningKeys>) -> HttpAnswer {
        let KnownLease { id, sequencer, ttl, .. } = self;
        let signature = keys.map(|keys| keys.sign(sequencer));
        let mut text = json!({
            "resource": sequencer.resource,
            "token": sequencer.token,
            "sequencer": sequencer,
            "lease_id": id,
            "ttl_ms": millis(*ttl),
            "valid_for_ms": millis(left),
        });
        if let (Some(signature), Some(fields)) = (&signature, text.as_object_mut()) {
            fields.insert("signature".into(), signature.as_str().into());
        }
        let text = text.to_string();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
        // In the form in which a client sends it on.
        attach_sequencer(&mut headers, sequencer);
        let location = (status == StatusCode::CREATED).then(|| format!("/leases/{id}"));
        for (name, value) in [(SIGNATURE, signature), (LOCATION, location)] {
            headers.extend(value.and_then(|value| Some((name, HeaderValue::try_from(value).ok()?))));
        }
        (headers, response(status, JSON, text)).into_response()
    }
}

impl Table {
    /// Keeps a lease until it is released or over, or another process goes on with it.
    pub(super) fn keep(self: &Arc<Table>, known: KnownLease, lease: Lease, slot: Slot) {
        let (id, lost) = (known.id.clone(), lease.lost());
        let entry = Arc::new(Entry {
            lease: AsyncMutex::new(Some(lease)),
            known: known.clone(),
            _slot: gauged("fencing_serve_leases", slot),
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

    /// Keeps a lease once its answer is read. Until then the answer has it: if its client goes away before that, it is
    /// dropped with the answer, which releases it.
    pub(super) fn keep_once_read(self: Arc<Table>, unread: (KnownLease, Lease, Slot), answer: Body) -> Body {
        let mut unread = Some(unread);
        Body::new(answer.map_frame(move |frame| {
            if let Some((known, lease, slot)) = unread.take() {
                self.keep(known, lease, slot);
            }
            frame
        }))
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Entry>> {
        self.0.lock().get(id).cloned()
    }

    /// Looks at a lease of which this process knows when it ends.
    pub(super) async fn look<T>(&self, id: &str, look: impl FnOnce(&Lease) -> T) -> Option<T> {
        self.find(id)?.lease.lock().await.as_ref().map(look)
    }

    /// Removes a lease. If that drops it, its release is sent, and not waited for, unless another process may have it.
    pub(super) fn remove(&self, id: &str) -> Option<Arc<Entry>> {
        self.0.lock().remove(id)
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
        let lease_slots = Arc::new(Semaphore::new(2));
        let caller = Clients::open(None).unwrap().find(&HeaderMap::new()).ok().unwrap();
        let ttl = Duration::from_secs(10);
        let answered = async || {
            let lease = lock.acquire(&resource).await.unwrap();
            let known = KnownLease::new(&lease, ttl, "a", None).unwrap();
            let (id, slot) = (known.id.clone(), caller.take_lease(&lease_slots).ok().unwrap());
            (id, Arc::clone(&table).keep_once_read((known, lease, slot), Body::from("a")))
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
