use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fencing_protocol::Fault;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::client::EtcdClient;
use super::keys::EtcdKeys;
use super::messages::{KeyValue, LeaseGrant, LeaseRevoke, LeaseTimeToLive};
use crate::lock::engine::token_base::Largest;
use crate::random;
use crate::time::Clock;

/// The members of a cluster, as all sessions of one lock service use them.
#[derive(derive_more::Debug, derive_more::Display)]
#[debug("{self}")]
#[display("{}", client.name())]
pub struct Cluster {
    pub(super) client: EtcdClient,
    pub(super) keys: EtcdKeys,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) largest: Largest,
    /// Time limit for an answer to an operator.
    pub(super) budget: Duration,
    pub(super) requests: TaskTracker,
    /// Whether an old version was reported.
    pub(super) warned: AtomicBool,
}

impl Cluster {
    /// Returns an etcd lease with a number chosen here: a request repeated after a lost answer gets the same one.
    pub(super) async fn grant(&self, seconds: u64, budget: Duration) -> Result<i64, Fault> {
        let (seconds, id) = (i64::try_from(seconds).unwrap_or(i64::MAX), random::u128() as i64 & i64::MAX);
        match self.client.ask(&LeaseGrant { seconds, id }, budget).await.map_err(Fault::from) {
            Err(Fault::Refused(text)) if text.contains("lease already exists") => Ok(id),
            granted => granted.map(|_| id),
        }
    }

    /// Ends an etcd lease and what is on it, in a separate task.
    pub(super) fn revoke(self: &Arc<Self>, runtime: &Handle, id: i64, budget: Duration) {
        let (cluster, counted) = (Arc::clone(self), self.requests.token());
        runtime.spawn(async move {
            if let Err(failure) = cluster.client.ask(&LeaseRevoke { id }, budget).await {
                tracing::debug!(fault = %failure.fault, "an etcd lease is left to end by itself");
            }
            drop(counted);
        });
    }

    /// Returns the fault of a service that this key closes: an operator has raised its tokens.
    pub(super) async fn closed(&self, closed: &KeyValue, budget: Duration) -> Fault {
        match self.client.ask(&LeaseTimeToLive { id: closed.lease }, budget).await {
            Ok(left) => Fault::Quarantined(Duration::from_secs(left.seconds.max(1).unsigned_abs())),
            Err(failure) => failure.fault,
        }
    }
}
