use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};

use fencing_protocol::{Fault, Owner};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use zookeeper_client::{Acls, Client};

use super::paths::Node;
use crate::lock::error::Loss;
use crate::lock::lease::state::LeaseState;
use crate::time::Time;

/// A session with the ensemble, and its own node, which each renewal writes.
///
/// Servers answer the requests of a session in their order, also across a reconnection.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) owner: Owner,
    pub(super) node: String,
    pub(super) acls: Acls<'static>,
    pub(super) runtime: Handle,
    pub(super) renewals: mpsc::UnboundedSender<Renewal>,
    /// The shared locks that its clients wait to hold alone, by folder, and until when. Nobody joins those who share
    /// them.
    pub(super) drains: Mutex<HashMap<String, watch::Sender<Instant>>>,
    /// The attempts that were not answered in time, and are not yet.
    pub(super) late: TaskTracker,
    pub(super) leases: Mutex<HashMap<Owner, Arc<Held>>>,
    /// Why its leases are lost: an operator raised the tokens and removed its node, or the servers ended it.
    ended: OnceLock<Loss>,
}

/// What a lease holds, until it leaves it or has lapsed.
pub(super) struct Held {
    pub(super) owner: Owner,
    pub(super) nodes: Arc<[Node]>,
    /// When the lease counts from.
    pub(super) since: Mutex<Time>,
    pub(super) state: OnceLock<Weak<LeaseState>>,
    /// A renewal has found that a node is not there, or is another's.
    pub(super) is_lost: AtomicBool,
}

/// The renewal of one lease.
pub(super) struct Renewal {
    pub(super) nodes: Arc<[Node]>,
    /// Takes when the lease counts from. `None`: it is lost.
    pub(super) renewed: oneshot::Sender<Result<Option<Time>, Fault>>,
}

impl Held {
    /// Ends the lease, for this reason.
    pub(super) fn close(&self, loss: Loss) {
        if let Some(state) = self.state.get().and_then(Weak::upgrade) {
            state.close(loss);
        }
    }
}

impl Session {
    pub(super) fn new(
        client: Client,
        (owner, node): (Owner, String),
        acls: Acls<'static>,
        renewals: mpsc::UnboundedSender<Renewal>,
    ) -> Arc<Session> {
        let (runtime, mut states) = (Handle::current(), client.state_watcher());
        let (drains, late, leases, ended) = Default::default();
        let session = Session { client, owner, node, acls, runtime, renewals, drains, late, leases, ended };
        let session = Arc::new(session);
        let lives = Arc::downgrade(&session);
        session.runtime.spawn(async move {
            while !states.changed().await.is_terminated() {}
            if let Some(session) = lives.upgrade() {
                session.end(Loss::Expired);
            }
        });
        session
    }

    /// Lets go of what a lease holds. Returns whether it did until now.
    pub(super) fn forget(&self, owner: Owner) -> bool {
        self.leases.lock().remove(&owner).is_some()
    }

    /// Ends all leases, for this reason.
    pub(super) fn end(&self, loss: Loss) {
        let _ = self.ended.set(loss);
        let ended = std::mem::take(&mut *self.leases.lock());
        ended.values().for_each(|held| held.close(loss));
    }

    /// Returns why all locks of the session are lost, if they are.
    pub(super) fn loss(&self) -> Option<Loss> {
        // Closed: its runtime has ended.
        let is_over = self.client.state().is_terminated() || self.renewals.is_closed();
        self.ended.get().copied().or(is_over.then_some(Loss::Expired))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.loss().is_some()
    }
}
