use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use fencing_protocol::Owner;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;
use zookeeper_client::{Acls, Client, SessionState};

use super::drains::Drains;
use super::renewals::{Renewal, renew_all};
use crate::lock::error::Loss;
use crate::lock::lease::state::LeaseState;
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
    timeout: Duration,
    /// The states of its leases.
    leases: Mutex<Vec<Weak<LeaseState>>>,
    /// Its node is gone: an operator has raised the tokens.
    pub(super) ended: Arc<AtomicBool>,
    unanswered: Mutex<Unanswered>,
}

/// The requests in flight, and since when none was answered.
struct Unanswered {
    count: usize,
    since: Instant,
}

/// Requests in flight, until this is dropped: they are answered.
pub(super) struct Asked(Arc<Session>);

impl Session {
    pub(super) fn new(
        client: Client,
        (owner, node): (Owner, String),
        acls: Acls<'static>,
        timeout: Duration,
        clock: Arc<dyn Clock>,
    ) -> Arc<Session> {
        let (renewals, due) = mpsc::unbounded_channel();
        let (ended, runtime) = (Arc::<AtomicBool>::default(), Handle::current());
        runtime.spawn(renew_all(client.clone(), node.clone(), Arc::clone(&ended), clock, due));
        let unanswered = Mutex::new(Unanswered { count: 0, since: Instant::now() });
        let (drains, leases) = Default::default();
        let session = Arc::new(Session {
            client,
            owner,
            node,
            acls,
            runtime,
            renewals,
            drains,
            timeout,
            leases,
            ended,
            unanswered,
        });
        let (mut states, lives) = (session.client.state_watcher(), Arc::downgrade(&session));
        session.runtime.spawn(async move {
            while !states.changed().await.is_terminated() {}
            if let Some(session) = lives.upgrade() {
                session.end();
            }
        });
        session
    }

    /// Learns the state of a lease: it is lost with the session.
    pub(super) fn watch(&self, lease: &Arc<LeaseState>) {
        let mut leases = self.leases.lock();
        if leases.len() >= 64 && leases.len().is_power_of_two() {
            leases.retain(|lease| lease.strong_count() > 0);
        }
        leases.push(Arc::downgrade(lease));
        drop(leases);
        if self.has_ended() {
            self.end();
        }
    }

    /// Ends all leases: an operator has removed the session's node, or the servers have ended it.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        for lease in std::mem::take(&mut *self.leases.lock()) {
            if let Some(lease) = lease.upgrade() {
                lease.close(Loss::Superseded);
            }
        }
    }

    /// Counts requests as in flight.
    pub(super) fn ask(self: &Arc<Self>) -> Asked {
        let mut unanswered = self.unanswered.lock();
        if unanswered.count == 0 {
            unanswered.since = Instant::now();
        }
        unanswered.count += 1;
        Asked(Arc::clone(self))
    }

    /// Returns for how long requests wait for any answer.
    pub(super) fn silence(&self) -> Duration {
        let unanswered = self.unanswered.lock();
        if unanswered.count == 0 { Duration::ZERO } else { unanswered.since.elapsed() }
    }

    /// Reports whether new locks need another session: this one has ended, or nothing was heard for so long that its
    /// leases have. An ensemble that was restored answers no client that has seen more.
    pub(super) fn is_over(&self) -> bool {
        self.has_ended() || self.silence() > self.timeout
    }

    /// Reports whether all locks of the session are lost.
    pub(super) fn has_ended(&self) -> bool {
        use SessionState::{AuthFailed, Closed, Expired};
        self.ended.load(Ordering::Acquire)
            || matches!(self.client.state(), Expired | Closed | AuthFailed)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let mut unanswered = self.0.unanswered.lock();
        unanswered.count = unanswered.count.saturating_sub(1);
        unanswered.since = Instant::now();
    }
}
