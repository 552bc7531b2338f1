use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use fencing_protocol::Owner;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use zookeeper_client::{Acls, Client};

use super::drains::Drains;
use super::held::HeldNodes;
use super::renewals::{Renewal, renew_all};
use crate::lock::error::Loss;
use crate::lock::sleep::sleep_until;
use crate::time::Clock;

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
    pub(super) drains: Drains,
    /// The attempts that were not answered in time, and are not yet.
    pub(super) late: AtomicUsize,
    held: Mutex<HashMap<Owner, Arc<HeldNodes>>>,
    /// Why its leases are lost: an operator who has raised the tokens has removed its node, or the servers have ended it.
    ended: OnceLock<Loss>,
}

impl Session {
    /// The nodes of its leases stay for `timeout` after the last renewal.
    pub(super) fn new(
        client: Client,
        (owner, node): (Owner, String),
        acls: Acls<'static>,
        clock: &Arc<dyn Clock>,
        timeout: Duration,
    ) -> Arc<Session> {
        let (renewals, due) = mpsc::unbounded_channel();
        let (runtime, mut states) = (Handle::current(), client.state_watcher());
        let (drains, late, held, ended) = Default::default();
        let session =
            Session { client, owner, node, acls, runtime, renewals, drains, late, held, ended };
        let session = Arc::new(session);
        let lives = Arc::downgrade(&session);
        session.runtime.spawn(renew_all(Weak::clone(&lives), Arc::clone(clock), due));
        session.runtime.spawn(sweep(Weak::clone(&lives), Arc::clone(clock), timeout));
        session.runtime.spawn(async move {
            while !states.changed().await.is_terminated() {}
            if let Some(session) = lives.upgrade() {
                session.end(Loss::Expired);
            }
        });
        session
    }

    /// Holds the nodes of a lease until it leaves them, or has lapsed.
    pub(super) fn hold(&self, held: &Arc<HeldNodes>) {
        self.held.lock().insert(held.owner, Arc::clone(held));
    }

    /// Reports whether they were held until now.
    pub(super) fn forget(&self, owner: Owner) -> bool {
        self.held.lock().remove(&owner).is_some()
    }

    /// Ends all leases, for this reason.
    pub(super) fn end(&self, loss: Loss) {
        let _ = self.ended.set(loss);
        let ended = std::mem::take(&mut *self.held.lock());
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

/// Removes the nodes of leases that have lapsed, and their lock-delay after it: the session lives on.
async fn sweep(session: Weak<Session>, clock: Arc<dyn Clock>, timeout: Duration) {
    let mut next = clock.now();
    loop {
        sleep_until(&*clock, next).await;
        let Some(session) = session.upgrade() else { return };
        let now = clock.now();
        // None that is granted or renewed from now on lapses before.
        next = now + timeout;
        let held: Vec<_> = session.held.lock().values().cloned().collect();
        for held in held {
            match *held.since.lock() + timeout {
                end if end > now => next = next.min(end),
                _ => drop(Arc::clone(&held).lapse()),
            }
        }
    }
}
