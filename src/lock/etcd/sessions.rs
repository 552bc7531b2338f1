use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::Fault;
use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};

use super::cluster::Cluster;
use super::session::EtcdSession;
use super::task;
use crate::lock::settings::Settings;

/// The sessions of one lock service, which are started when they are needed: one for each runtime, TTL and lock-delay.
#[derive(derive_more::Debug)]
#[debug("{cluster:?}")]
pub(super) struct Sessions {
    pub(super) cluster: Arc<Cluster>,
    open: Mutex<HashMap<(Id, Duration, Duration), Place>>,
}

/// One caller starts a session, and the others wait for it.
type Place = Arc<OnceCell<Arc<EtcdSession>>>;

impl Sessions {
    pub(super) fn new(cluster: Cluster) -> Sessions {
        Sessions { cluster: Arc::new(cluster), open: Mutex::default() }
    }

    /// Returns the session for these settings, by then.
    pub(super) async fn get(&self, settings: &Settings, end: Instant) -> Result<Arc<EtcdSession>, Fault> {
        let (terms, budget) = (settings.terms(), settings.budget());
        let runtime = Handle::try_current().map_err(|_| Fault::NoRuntime)?.id();
        let place = {
            let mut open = self.open.lock();
            let is_over = |place: &Place| place.get().is_some_and(|session| !session.is_usable());
            let key = (runtime, terms.ttl, terms.lock_delay);
            if open.get(&key).is_none_or(is_over) {
                open.retain(|_, place| !is_over(place));
            }
            Arc::clone(open.entry(key).or_default())
        };
        let start = place.get_or_try_init(async || {
            let session = EtcdSession::start(&self.cluster, &terms, budget).await?;
            session.keep(task::spawn(&session));
            Ok(session)
        });
        timeout_at(end, start).await.unwrap_or(Err(Fault::TimedOut)).cloned()
    }

    /// Returns a session of this runtime, if there is one.
    pub(super) fn any(&self) -> Option<Arc<EtcdSession>> {
        let runtime = Handle::try_current().ok()?.id();
        let open = self.open.lock();
        let of_runtime = open.iter().filter(|((id, ..), _)| *id == runtime);
        let mut sessions = of_runtime.filter_map(|(_, place)| place.get());
        sessions.find(|session| session.is_usable()).cloned()
    }
}
