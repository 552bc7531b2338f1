use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use fencing_protocol::{Fault, Owner};
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;
use zookeeper_client::{Client, CreateMode, Error};

use super::contents::LockContents;
use super::fault;
use super::paths::{LockNode, Paths, WAITS};
use super::url::ZookeeperUrl;
use crate::lock::engine::EngineSession;
use crate::lock::engine::token_base::{Largest, first_base};
use crate::lock::error::Loss;
use crate::lock::lease::state::LeaseState;
use crate::lock::runtime::restarted;
use crate::random;
use crate::time::{Clock, Time};

/// The servers of an ensemble, as all sessions of one lock service use them.
#[derive(derive_more::Debug, derive_more::Display)]
#[debug("Ensemble({address:?})")]
#[display("zookeeper://{}", address.servers)]
pub struct Ensemble {
    pub(super) address: ZookeeperUrl,
    pub(super) paths: Paths,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) largest: Largest,
    pub(super) outstanding: TaskTracker,
}

impl Ensemble {
    pub(super) async fn connect(&self, timeout: Duration, budget: Duration) -> Result<Client, Fault> {
        // A lock is never freed because a client was dropped: the session is left to time out.
        let mut connector = Client::connector().with_fail_eagerly().with_detached();
        connector = connector.with_session_timeout(timeout).with_connection_timeout(budget * 2);
        if let Some(user) = &self.address.user {
            connector = connector.with_auth("digest", user.as_bytes());
        }
        let start = Instant::now();
        connector.connect(&self.address.servers).await.map_err(|error| match error {
            // The servers accept the connection and say nothing.
            _ if start.elapsed() >= budget => Fault::TimedOut,
            error => fault::of(error),
        })
    }

    /// Returns what tokens count from, unless somebody has removed or changed it.
    pub(super) fn check_base(&self, base: Option<u64>) -> Result<u64, Fault> {
        base.ok_or_else(|| {
            Fault::Refused(format!(
                "{} has no number to count tokens from: run `fencing raise` with a token above all that were granted",
                self.paths.base()
            ))
        })
    }

    /// Makes what all locks need, where it is missing.
    pub(super) async fn plant(&self, client: &Client) -> Result<(), Fault> {
        let persistent = CreateMode::Persistent.with_acls(self.address.acls());
        for path in self.paths.persistent() {
            let base = (path == self.paths.base()).then(|| first_base().to_string());
            match client.create(&path, base.unwrap_or_default().as_bytes(), &persistent).await {
                // A folder above may belong to somebody else.
                Ok(_) | Err(Error::NodeExists | Error::NoAuth) => {}
                Err(error) => return Err(fault::at(&path, error)),
            }
        }
        Ok(())
    }

    /// Makes a node, and what all need, where it is missing.
    pub(super) async fn make(&self, client: &Client, path: &str, mode: CreateMode) -> Result<(), Fault> {
        let options = mode.with_acls(self.address.acls());
        let mut made = client.create(path, b"", &options).await;
        if matches!(made, Err(Error::NoNode)) {
            self.plant(client).await?;
            made = client.create(path, b"", &options).await;
        }
        match made {
            Ok(_) | Err(Error::NodeExists) => Ok(()),
            Err(error) => Err(fault::at(path, error)),
        }
    }
}

/// A session with the ensemble, and its own node, which each renewal writes.
///
/// Servers answer the requests of a session in their order, also across a reconnection.
pub struct ZookeeperSession {
    pub(super) ensemble: Arc<Ensemble>,
    pub(super) client: Client,
    pub(super) owner: Owner,
    pub(super) node: String,
    pub(super) runtime: Handle,
    pub(super) renewals: UnboundedSender<ZookeeperRenewal>,
    /// The folders of shared locks with a waiting writer, and the end of each wait: until then no client joins.
    drains: Mutex<HashMap<String, watch::Sender<Instant>>>,
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
    pub(super) pristine: bool,
}

pub(super) struct ZookeeperRenewal {
    pub(super) nodes: Arc<[LockNode]>,
    /// Takes when the lease counts from. `None`: it is lost.
    pub(super) renewed: oneshot::Sender<Result<Option<Time>, Fault>>,
}

impl ZookeeperSession {
    /// Starts a session for locks that stay `closed_for` this long.
    pub(super) async fn start(
        ensemble: Arc<Ensemble>,
        closed_for: Duration,
        budget: Duration,
    ) -> Result<Arc<Self>, Fault> {
        // Servers count from the last ping that the leader has heard of, and a lease from its renewal after it.
        // It has whole milliseconds.
        let millis = (closed_for * 4 / 3).as_nanos().div_ceil(1_000_000);
        let timeout = Duration::from_millis(millis as u64);
        let client = ensemble.connect(timeout, budget).await?;
        let granted = client.session_timeout();
        if granted < timeout {
            return Err(Fault::Denied(format!(
                "sessions last {granted:?} at most, but a TTL with lock-delay of {closed_for:?} needs {timeout:?}: \
                 raise maxSessionTimeout of the servers, or take a shorter TTL"
            )));
        }
        let owner = Owner(random::timestamped());
        let node = ensemble.paths.session(owner);
        ensemble.make(&client, &node, CreateMode::Ephemeral).await?;
        let (renewals, due) = mpsc::unbounded_channel();
        let (clock, outstanding) = (Arc::clone(&ensemble.clock), ensemble.outstanding.clone());
        let (runtime, mut states) = (Handle::current(), client.state_watcher());
        let (drains, late, leases, ended) = Default::default();
        let session =
            ZookeeperSession { ensemble, client, owner, node, runtime, renewals, drains, late, leases, ended };
        let session = Arc::new(session);
        let lives = Arc::downgrade(&session);
        let watched = Weak::clone(&lives);
        tokio::spawn(async move {
            while !states.changed().await.is_terminated() {}
            if let Some(session) = watched.upgrade() {
                session.end(Loss::Expired);
            }
        });
        tokio::spawn(renew_all(Weak::clone(&lives), Arc::clone(&clock), due));
        tokio::spawn(restarted(move || {
            Self::sweep(Weak::clone(&lives), Arc::clone(&clock), closed_for, outstanding.clone())
        }));
        Ok(session)
    }

    /// Returns the contents of a lock's node on this session.
    pub(super) fn contents(&self, signature: &str, closed_for: Duration) -> String {
        let session = self.owner.to_string();
        LockContents { signature, closed_for: Some(closed_for), session: Some(&session), first: None }.to_string()
    }

    /// Notes that the lock of a lease was moved to this session.
    pub(super) fn hold(&self, owner: Owner, node: LockNode, since: Time) {
        let mut leases = self.leases.lock();
        let new = || Held { nodes: Arc::default(), since, state: Weak::new(), pristine: false };
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
                let ephemeral = CreateMode::Ephemeral.with_acls(self.ensemble.address.acls());
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

/// Renews the leases of a session: those that are due at one time with one write.
///
/// A ping would prove nothing: the connected server answers it, which may be cut off. The write is agreed on by a
/// majority. Behind it, the same server reads the node of each lease: it has what the majority had.
async fn renew_all(
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
