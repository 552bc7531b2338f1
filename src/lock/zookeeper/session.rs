use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use fencing_protocol::{Fault, Owner};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use zookeeper_client::{Acls, Client};

use super::paths::LockNode;
use crate::lock::error::Loss;
use crate::lock::lease::state::LeaseState;
use crate::time::Time;

/// A session with the ensemble, and its own node, which each renewal writes.
///
/// Servers answer the requests of a session in their order, also across a reconnection.
pub(super) struct ZookeeperSession {
    pub(super) client: Client,
    pub(super) owner: Owner,
    pub(super) node: String,
    pub(super) acls: Acls<'static>,
    pub(super) runtime: Handle,
    pub(super) renewals: mpsc::UnboundedSender<ZookeeperRenewal>,
    /// The folders of shared locks with a waiting writer, and the end of each wait: until then no client joins.
    pub(super) drains: Mutex<HashMap<String, watch::Sender<Instant>>>,
    /// The attempts that were not answered in time, and are not yet.
    pub(super) late: TaskTracker,
    pub(super) leases: Mutex<HashMap<Owner, Held>>,
    /// Why its leases are lost: an operator raised the tokens and removed its node, or the servers ended it.
    ended: OnceLock<Loss>,
}

/// What a lease holds, until it leaves it or has lapsed.
pub(super) struct Held {
    pub(super) nodes: Arc<[LockNode]>,
    /// When the lease counts from.
    pub(super) since: Time,
    pub(super) state: Weak<LeaseState>,
    /// Whether the nodes are as they were made: no other process has a ticket, and no renewal has missed one.
    pub(super) seen: bool,
}

/// The renewal of one lease.
pub(super) struct ZookeeperRenewal {
    pub(super) nodes: Arc<[LockNode]>,
    /// Takes when the lease counts from. `None`: it is lost.
    pub(super) renewed: oneshot::Sender<Result<Option<Time>, Fault>>,
}

impl ZookeeperSession {
    pub(super) fn new(
        client: Client,
        (owner, node): (Owner, String),
        acls: Acls<'static>,
        renewals: mpsc::UnboundedSender<ZookeeperRenewal>,
    ) -> Arc<ZookeeperSession> {
        let (runtime, mut states) = (Handle::current(), client.state_watcher());
        let (drains, late, leases, ended) = Default::default();
        let session = ZookeeperSession { client, owner, node, acls, runtime, renewals, drains, late, leases, ended };
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

    /// Notes that the lock of a lease was moved to this session.
    pub(super) fn hold(&self, owner: Owner, node: LockNode, since: Time) {
        let mut leases = self.leases.lock();
        let new = || Held { nodes: Arc::default(), since, state: Weak::new(), seen: false };
        let held = leases.entry(owner).or_insert_with(new);
        // Another caller of this process may have moved it again.
        if held.nodes.iter().all(|known| known.czxid < node.czxid) {
            held.nodes = [node].into();
        }
        held.since = held.since.max(since);
    }

    /// Changes what is noted of a lease. Returns false if nothing is: its nodes may be removed at any moment.
    pub(super) fn note(&self, owner: Owner, change: impl FnOnce(&mut Held)) -> bool {
        self.leases.lock().get_mut(&owner).map(change).is_some()
    }

    /// Lets go of what a lease holds, and returns what it did until now.
    pub(super) fn forget(&self, owner: Owner) -> Option<Held> {
        self.leases.lock().remove(&owner)
    }

    /// Ends all leases, for this reason.
    pub(super) fn end(&self, loss: Loss) {
        let _ = self.ended.set(loss);
        let ended = std::mem::take(&mut *self.leases.lock());
        for state in ended.values().filter_map(|held| held.state.upgrade()) {
            state.close(loss);
        }
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
