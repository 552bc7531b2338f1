use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::cluster::Cluster;
use super::messages::{EtcdAnswer, Range};
use super::session::{Doubtful, EtcdRenewal, EtcdSession, HeldClaim};
use crate::lock::sleep::restarted;
use crate::random::jitter;
use crate::time::Time;

/// The pause before a broken watch is set up again.
const WATCH_PAUSE: Duration = Duration::from_millis(100);

pub(super) fn spawn(session: &Arc<EtcdSession>) -> [JoinHandle<()>; 2] {
    let (weak, work) = (Arc::downgrade(session), Arc::clone(&session.work));
    let runs = restarted(move || run(Weak::clone(&weak), Arc::clone(&work)));
    let (cluster, weak) = (Arc::clone(&session.cluster), Arc::downgrade(session));
    let watches = watch(weak, cluster, session.lease, session.created, session.budget);
    [tokio::spawn(runs), tokio::spawn(watches)]
}

/// Renews and sweeps until the session is over, or nobody has it any more.
async fn run(session: Weak<EtcdSession>, work: Arc<Notify>) {
    while let Some(session) = session.upgrade() {
        let Some(pause) = session.run_once().await else { return };
        drop(session);
        let _ = timeout(pause, work.notified()).await;
    }
}

/// Ends the session as soon as its sentinel is gone. A member that is not up to date may renew for a while.
async fn watch(session: Weak<EtcdSession>, cluster: Arc<Cluster>, lease: i64, created: i64, budget: Duration) {
    let key = cluster.keys.sentinel(lease);
    let is_gone = async || {
        let answer = cluster.client.ask(&Range::one(key.clone()), budget).await.ok()?;
        if answer.kvs.first().is_none_or(|sentinel| sentinel.created != created) {
            return Some(());
        }
        let seen = answer.header().revision;
        cluster.client.deleted((key.clone(), Vec::new()), seen, budget).await.ok().map(drop)
    };
    while is_gone().await.is_none() {
        sleep(WATCH_PAUSE / 2 + jitter(WATCH_PAUSE)).await;
    }
    if let Some(session) = session.upgrade() {
        session.end();
    }
}

impl EtcdSession {
    /// Does what is due, and returns the pause until the next call; `None` once the session is over.
    async fn run_once(self: &Arc<Self>) -> Option<Duration> {
        let (renewals, renews, sweeps) = self.due()?;
        let round = async { if renews { self.round(renewals).await } else { Ok(()) } };
        let sweep = async { if sweeps { self.sweep().await } else { Ok(()) } };
        let (round, sweep) = futures_util::future::join(round, sweep).await;
        if let Err(fault) = round.and(sweep) {
            tracing::debug!(%fault, "etcd gave no answer that counts");
            return Some(self.ttl / 48 + jitter(self.ttl / 48));
        }
        let (now, state) = (self.cluster.clock.now(), self.state.lock());
        if !state.doubtful.is_empty() || !state.renewals.is_empty() {
            return Some(Duration::ZERO);
        }
        let lapses = state.held.values().map(|held| held.until);
        let next = lapses.fold(state.renewed + self.ttl / 3, Time::min);
        Some(next.since(now).max(Duration::from_millis(1)))
    }

    /// Returns, in one step, the renewals that are asked for, and whether to renew and to sweep; nothing once the
    /// session is over.
    fn due(self: &Arc<Self>) -> Option<(Vec<EtcdRenewal>, bool, bool)> {
        let (now, mut guard) = (self.cluster.clock.now(), self.state.lock());
        if guard.over || now >= self.expires(guard.renewed) {
            drop(guard);
            self.end();
            return None;
        }
        let state = &mut *guard;
        let lapsed = state.held.extract_if(|_, held| held.until <= now).map(|(_, held)| held);
        let doubtful = |HeldClaim { claim, on, .. }| Doubtful { claim, on, _counted: self.cluster.requests.token() };
        state.doubtful.extend(lapsed.map(doubtful));
        // The service and this task have one reference each.
        if Arc::strong_count(self) > 2 || !state.held.is_empty() {
            state.used = now;
        }
        if state.doubtful.is_empty() && now.since(state.used) >= self.ttl {
            state.over = true;
            self.cluster.revoke(&self.runtime, self.lease, self.budget);
            return None;
        }
        let renews = now >= state.renewed + self.ttl / 3 || !state.renewals.is_empty();
        let renewals = std::mem::take(&mut state.renewals);
        Some((renewals, renews, !state.doubtful.is_empty()))
    }
}
