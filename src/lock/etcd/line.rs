use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Resource};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::client::Repeat;
use super::fault::Failure;
use super::keys::Span;
use super::messages::{Answer, Op, Range, Txn};
use super::session::{Cluster, EtcdSession};
use super::sessions::Sessions;
use crate::lock::settings::Settings;
use crate::lock::wait::line::{LineListener, PlaceReports, WaitingLine};
use crate::lock::wait::listener::ReleaseListener;
use crate::lock::wait::release_notifications::OpeningListener;
use crate::random;

/// Opens the lines of waiting clients, on a session of this client.
pub(super) fn open(sessions: &Arc<Sessions>, settings: &Settings) -> OpeningListener {
    let (sessions, settings) = (Arc::clone(sessions), settings.clone());
    async move {
        let session = match sessions.any() {
            Some(session) => session,
            None => sessions.get(&settings).await?,
        };
        let listener = LineListener::new(Arc::new(EtcdLine(session)));
        Ok(Box::new(listener) as Box<dyn ReleaseListener>)
    }
    .boxed()
}

struct EtcdLine(Arc<EtcdSession>);

impl WaitingLine for EtcdLine {
    fn keep_place(
        self: Arc<Self>,
        resource: Resource,
        reports: PlaceReports,
    ) -> BoxFuture<'static, Fault> {
        async move {
            let key = self.0.cluster.keys.place(&resource, random::u128());
            let place = Place { session: Arc::clone(&self.0), resource, key };
            match place.keep(reports).await {
                Ok(never) => match never {},
                Err(failure) => failure.fault,
            }
        }
        .boxed()
    }
}

/// A place in a line. Dropped, it is left.
struct Place {
    session: Arc<EtcdSession>,
    resource: Resource,
    key: Vec<u8>,
}

impl Place {
    /// Takes the last place, and watches the one ahead. When this one is the first, it watches the lock.
    async fn keep(&self, reports: PlaceReports) -> Result<Infallible, Failure> {
        let (EtcdSession { cluster, lease, budget, .. }, resource) =
            (&*self.session, &self.resource);
        let (line, holders) = (cluster.keys.places(resource), cluster.keys.holders(resource));
        let take = Txn {
            success: vec![
                Op::put(self.key.clone(), Vec::new(), *lease),
                Op::range(Range::last(line.clone(), 2, 0)),
                Op::range(Range { limit: 1, ..Range::all(holders.clone()) }),
            ],
            ..Txn::default()
        };
        let (answer, _) = cluster.client.call(&take, *budget, Repeat::Never).await?;
        let (taken, mut seen) = (answer.header().revision, answer.header().revision);
        let mut ahead = answer.read(1).get(1).map(|place| place.key.clone());
        reports.registered(ahead.is_none() && answer.read(2).is_empty());
        while let Some(key) = ahead.take() {
            self.deleted((key, Vec::new()), seen).await?;
            // Another one may be ahead: the one that has left may have been in the middle.
            let first = Range::last(line.clone(), 1, taken - 1);
            let answer = cluster.client.ask(&first, *budget).await?;
            seen = answer.header().revision;
            ahead = answer.kvs.first().map(|place| place.key.clone());
            if ahead.is_none() && self.is_free(cluster, *budget).await? {
                reports.released();
            }
        }
        loop {
            seen = self.deleted(holders.clone(), seen).await?;
            reports.released();
        }
    }

    /// Returns whether nobody holds the lock alone: who shares it lets others in.
    async fn is_free(&self, cluster: &Cluster, budget: Duration) -> Result<bool, Failure> {
        let alone = Range::one(cluster.keys.alone(&self.resource));
        Ok(cluster.client.ask(&alone, budget).await?.kvs.is_empty())
    }

    /// Waits until one of these keys is deleted after this revision, and returns the revision then.
    async fn deleted(&self, keys: Span, seen: i64) -> Result<i64, Failure> {
        let EtcdSession { cluster, budget, .. } = &*self.session;
        let watch = cluster.client.watch(keys, seen + 1);
        let lost = || Failure::lost(Fault::TimedOut);
        let mut watch = timeout(*budget, watch).await.unwrap_or_else(|_| Err(lost()))?;
        watch.deleted().await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (session, key) = (Arc::clone(&self.session), std::mem::take(&mut self.key));
        let counted = session.cluster.requests.token();
        self.session.runtime.spawn(async move {
            let leave = Txn { success: vec![Op::delete(key)], ..Txn::default() };
            // It ends with the session otherwise.
            let _ = session.cluster.client.ask(&leave, session.budget).await;
            drop(counted);
        });
    }
}
