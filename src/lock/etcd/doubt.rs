use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::Resource;
use tokio::time::{Instant, timeout_at};

use super::claim::EtcdClaim;
use super::client::Repeat;
use super::session::{Doubtful, EtcdSession};

/// Locks that may be held under this owner, or will be. Dropped, they are swept.
pub(super) struct InDoubt {
    session: Arc<EtcdSession>,
    doubt: Option<Doubtful>,
}

impl InDoubt {
    pub(super) fn new(session: &Arc<EtcdSession>, claim: &Arc<EtcdClaim>) -> InDoubt {
        let (claim, counted) = (Arc::clone(claim), session.cluster.requests.token());
        let doubt = Doubtful { claim, lease: Some(session.lease), _counted: counted };
        InDoubt { session: Arc::clone(session), doubt: Some(doubt) }
    }

    pub(super) fn decided(mut self) {
        self.doubt = None;
    }
}

impl Drop for InDoubt {
    fn drop(&mut self) {
        if let Some(doubt) = self.doubt.take() {
            let mut state = self.session.state.lock();
            if !state.over {
                state.doubtful.push(doubt);
                self.session.work.notify_one();
            }
        }
    }
}

impl EtcdSession {
    /// Keeps others from joining the shared lock, in a separate task. If that fails, the waiter asks again.
    pub(super) fn drain(self: &Arc<Self>, resource: &Resource, lasting: Duration) {
        let until = self.cluster.clock.now() + lasting;
        let (claim, modified) = {
            let mut state = self.state.lock();
            let known = state.drains.iter_mut().find(|(_, claim)| claim.concerns(resource));
            let claim = match known {
                Some((known, _)) if until.since(*known) < lasting / 2 => return,
                Some((known, claim)) => {
                    *known = until;
                    Arc::clone(claim)
                }
                None => {
                    let key = self.cluster.keys.drain(resource);
                    let claim = Arc::new(EtcdClaim::waiting(resource, key));
                    state.drains.push((until, Arc::clone(&claim)));
                    claim
                }
            };
            // The sweep that deletes it comes later, and changes the sentinel.
            (claim, self.modified())
        };
        let (session, counted) = (Arc::clone(self), self.cluster.requests.token());
        self.runtime.spawn(async move {
            let EtcdSession { cluster, lease, budget, .. } = &*session;
            let put = claim.put(&cluster.keys, *lease, modified);
            let put = cluster.client.call(&put, *budget, Repeat::Never).await;
            if !put.is_ok_and(|(answer, _)| answer.succeeded) {
                claim.locks.iter().for_each(|(resource, _)| session.undrain(resource));
            }
            drop(counted);
        });
    }

    /// Lets others join again.
    pub(super) fn undrain(&self, resource: &Resource) {
        let (now, mut state) = (self.cluster.clock.now(), self.state.lock());
        let mut drains = state.drains.iter_mut();
        if let Some((until, _)) = drains.find(|(_, claim)| claim.concerns(resource)) {
            *until = now;
            self.work.notify_one();
        }
    }

    /// Waits until nothing of these resources is in doubt here, not for longer than that.
    pub(super) async fn clear(&self, claim: &EtcdClaim, end: Instant) {
        loop {
            let mut swept = std::pin::pin!(self.swept.notified());
            swept.as_mut().enable();
            let concerns = |it: &EtcdClaim| it.locks.iter().any(|(it, _)| claim.concerns(it));
            if !self.state.lock().doubtful.iter().any(|it| concerns(&it.claim)) || timeout_at(end, swept).await.is_err()
            {
                return;
            }
        }
    }
}
