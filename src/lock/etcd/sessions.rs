use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::Fault;
use tokio::time::{Instant, timeout_at};

use super::cluster::Cluster;
use super::session::EtcdSession;
use super::task;
use crate::lock::openings::Openings;
use crate::lock::settings::Settings;

/// The sessions of one lock service: one for each runtime, TTL and lock-delay.
#[derive(derive_more::Debug)]
#[debug("{cluster:?}")]
pub(super) struct EtcdSessions {
    pub(super) cluster: Arc<Cluster>,
    open: Openings<(Duration, Duration), EtcdSession>,
}

impl EtcdSessions {
    pub(super) fn new(cluster: Cluster) -> EtcdSessions {
        EtcdSessions { cluster: Arc::new(cluster), open: Openings::new(EtcdSession::has_ended) }
    }

    /// Returns the session for these settings, by then.
    pub(super) async fn get(&self, settings: &Settings, end: Instant) -> Result<Arc<EtcdSession>, Fault> {
        let (terms, budget) = (settings.terms(), settings.budget());
        let open = || {
            let (cluster, counted) = (Arc::clone(&self.cluster), self.cluster.requests.token());
            async move {
                let session = EtcdSession::start(&cluster, &terms, budget).await?;
                session.keep(task::spawn(&session));
                drop(counted);
                Ok(session)
            }
        };
        let opened = self.open.get((terms.ttl, terms.lock_delay), (terms.closed_for(), budget * 2), open);
        timeout_at(end, opened).await.unwrap_or(Err(Fault::TimedOut))
    }

    /// Returns a session of this runtime, if there is one.
    pub(super) fn any(&self) -> Option<Arc<EtcdSession>> {
        self.open.any()
    }
}
