use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock, Weak};

use fencing_protocol::{Fault, Owner};
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;
use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::fault;
use super::paths::{LockNode, WAITS};
use crate::lock::error::Loss;
use crate::lock::lease::state::LeaseState;
use crate::time::{Clock, Time};

/// A session with the ensemble, and its own node, which each renewal writes. Servers answer the requests of a session
/// in their order, also across a reconnection.
pub(super) struct ZookeeperSession {
    pub(super) client: Client,
    pub(super) owner: Owner,
    pub(super) node: String,
    pub(super) acls: Acls<'static>,
    pub(super) runtime: Handle,
    pub(super) renewals: UnboundedSender<ZookeeperRenewal>,
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
        renewals: UnboundedSender<ZookeeperRenewal>,
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

    /// Changes or reads what is noted of a lease. `None` if nothing is: its nodes may be removed at any moment.
    pub(super) fn note<T>(&self, owner: Owner, change: impl FnOnce(&mut Held) -> T) -> Option<T> {
        self.leases.lock().get_mut(&owner).map(change)
    }

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

    /// Keeps others from joining the shared lock until then.
    pub(super) fn drain(self: &Arc<Self>, folder: String, until: Instant) {
        let mut drains = self.drains.lock();
        if let Some(drain) = drains.get(&folder) {
            drain.send_replace(until);
            return;
        }
        let (drain, ends) = watch::channel(until);
        drains.insert(folder.clone(), drain);
        drop(drains);
        self.runtime.spawn(Arc::clone(self).keep_closed(folder, ends));
    }

    /// Ends it: the lock is acquired.
    pub(super) fn end_drain(&self, folder: &str) {
        if let Some(drain) = self.drains.lock().get(folder) {
            drain.send_replace(Instant::now());
        }
    }

    async fn keep_closed(self: Arc<Self>, folder: String, mut ends: watch::Receiver<Instant>) {
        let path = format!("{folder}/{WAITS}");
        loop {
            let until = *ends.borrow_and_update();
            if until > Instant::now() {
                let ephemeral = CreateMode::Ephemeral.with_acls(self.acls);
                // Another client may keep it closed already.
                let _ = self.client.create(&path, b"", &ephemeral).await;
                let _ = timeout_at(until, ends.changed()).await;
                continue;
            }
            self.open_again(&path).await;
            let mut drains = self.drains.lock();
            if *ends.borrow() <= Instant::now() {
                drains.remove(&folder);
                return;
            }
        }
    }

    async fn open_again(&self, path: &str) {
        let remove = || async {
            let (synced, found) = (self.client.sync(path), self.client.check_stat(path));
            synced.await?;
            match found.await? {
                Some(stat) if stat.ephemeral_owner == self.client.session_id().0 => {
                    self.client.delete(path, None).await
                }
                _ => Ok(()),
            }
        };
        self.until_known(remove).await;
    }
}

/// Renews the leases of a session: those that are due at one time with one write. A ping would prove nothing: the
/// connected server answers it, which may be cut off. The write is agreed on by a majority. Behind it, the same server
/// reads the node of each lease: it has what the majority had.
pub(super) async fn renew_all(
    session: Weak<ZookeeperSession>,
    clock: Arc<dyn Clock>,
    mut due: UnboundedReceiver<ZookeeperRenewal>,
) {
    // A panic, of the caller's clock perhaps, fails the renewals of one write.
    while AssertUnwindSafe(renew_due(&session, &*clock, &mut due)).catch_unwind().await.is_err() {}
}

async fn renew_due(session: &Weak<ZookeeperSession>, clock: &dyn Clock, due: &mut UnboundedReceiver<ZookeeperRenewal>) {
    let mut batch = Vec::new();
    while due.recv_many(&mut batch, usize::MAX).await > 0 {
        // Their callers have given up.
        batch.retain(|renewal| !renewal.renewed.is_closed());
        let Some(session) = session.upgrade() else { return };
        if batch.is_empty() {
            continue;
        }
        let start = clock.now();
        let written = session.client.set_data(&session.node, b"", None);
        let ask = |node: &LockNode| session.client.check_stat(&node.path);
        let asked: Vec<Vec<_>> = batch.iter().map(|renewal| renewal.nodes.iter().map(ask).collect()).collect();
        let written = written.await.map(drop);
        match &written {
            Err(Error::NoNode) => session.end(Loss::Superseded),
            Err(error) if fault::is_over(error) => session.end(Loss::Expired),
            _ => {}
        }
        let written = written.map_err(fault::of);
        for (ZookeeperRenewal { nodes, renewed }, stats) in batch.drain(..).zip(asked) {
            let read = async {
                for (node, stat) in nodes.iter().zip(stats) {
                    if stat.await?.is_none_or(|stat| stat.czxid != node.czxid) {
                        return Ok(None);
                    }
                }
                Ok(Some(start))
            };
            let _ = renewed.send(match &written {
                Ok(()) => read.await.map_err(fault::of),
                Err(_) if session.has_ended() => Ok(None),
                Err(fault) => Err(fault.clone()),
            });
        }
    }
}
