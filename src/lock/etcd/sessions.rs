use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::Fault;
use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};
use tokio::time::timeout;

use super::session::{Cluster, EtcdSession};
use crate::lock::settings::Settings;

/// The sessions of one lock service, which are started when they are needed: one for each runtime, TTL and lock-delay.
#[derive(derive_more::Debug)]
#[debug("{cluster:?}")]
pub(super) struct Sessions {
    pub(super) cluster: Arc<Cluster>,
    open: Mutex<HashMap<(Id, Duration, Duration), Arc<EtcdSession>>>,
    /// Held while one is started, so that others wait for it and don't start theirs.
    starting: tokio::sync::Mutex<()>,
}

impl Sessions {
    pub(super) fn new(cluster: Cluster) -> Sessions {
        let (open, starting) = Default::default();
        Sessions { cluster: Arc::new(cluster), open, starting }
    }

    /// Returns the session for these settings.
    pub(super) async fn get(&self, settings: &Settings) -> Result<Arc<EtcdSession>, Fault> {
        let (terms, budget) = (settings.terms(), settings.budget());
        let runtime = Handle::try_current().map_err(|_| Fault::NoRuntime)?.id();
        let place = (runtime, terms.ttl, terms.lock_delay);
        if let Some(session) = self.usable(&place) {
            return Ok(session);
        }
        let start = async {
            let _one = self.starting.lock().await;
            if let Some(session) = self.usable(&place) {
                return Ok(session);
            }
            let session = EtcdSession::start(&self.cluster, &terms, budget).await?;
            let mut open = self.open.lock();
            open.retain(|_, session| session.is_usable());
            open.insert(place, Arc::clone(&session));
            Ok(session)
        };
        // A start has two requests.
        timeout(budget * 2, start).await.unwrap_or(Err(Fault::TimedOut))
    }

    /// Returns a session of this runtime, if there is one.
    pub(super) fn any(&self) -> Option<Arc<EtcdSession>> {
        let runtime = Handle::try_current().ok()?.id();
        let open = self.open.lock();
        let of_runtime = open.iter().filter(|((id, ..), _)| *id == runtime);
        of_runtime.map(|(_, session)| session).find(|session| session.is_usable()).cloned()
    }

    /// Waits until every request is answered or given up, and nothing is in doubt.
    pub(super) async fn settle(&self) {
        loop {
            self.cluster.requests.wait().await;
            let open: Vec<_> = self.open.lock().values().cloned().collect();
            for session in open {
                session.settle().await;
            }
            if self.cluster.requests.is_empty() {
                return;
            }
        }
    }

    fn usable(&self, place: &(Id, Duration, Duration)) -> Option<Arc<EtcdSession>> {
        let session = self.open.lock().get(place).cloned()?;
        session.is_usable().then_some(session)
    }
}
