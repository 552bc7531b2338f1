use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Resource};
use scopeguard::{ScopeGuard, guard};
use tokio::time::{Instant, sleep, timeout_at};

use super::claim::EtcdClaim;
use super::client::Repeat;
use super::messages::{Compare, Op, Txn};
use super::session::{Doubtful, EtcdSession, seconds};

/// Guards the locks of a claim whose request has no known outcome: they may be held now, or later. If this is dropped
/// before it is [`decided`], the session sweeps them.
pub(super) type InDoubt = ScopeGuard<(Arc<EtcdSession>, Doubtful), fn((Arc<EtcdSession>, Doubtful))>;

/// Puts the locks of a claim in doubt. The caller sends its request only after this.
pub(super) fn in_doubt(session: &Arc<EtcdSession>, claim: &Arc<EtcdClaim>) -> InDoubt {
    let (claim, counted) = (Arc::clone(claim), session.cluster.requests.token());
    let doubt = Doubtful { claim, on: Some(session.lease), _counted: counted };
    guard((Arc::clone(session), doubt), |(session, doubt)| {
        let mut state = session.state.lock();
        if !state.over {
            state.doubtful.push(doubt);
            session.work.notify_one();
        }
    })
}

/// Ends the doubt: the session has nothing to sweep.
pub(super) fn decided(doubt: InDoubt) {
    drop(ScopeGuard::into_inner(doubt));
}

impl EtcdSession {
    /// Keeps others from joining the shared lock for `lasting` while it is held, in a separate task. The grant ends
    /// this early, or, if this process dies, its etcd lease (whole seconds). If the drain fails, the waiter asks again.
    pub(super) fn drain(&self, resource: &Resource, lasting: Duration) {
        if lasting.is_zero() {
            return;
        }
        let (cluster, runtime, budget) = (Arc::clone(&self.cluster), self.runtime.clone(), self.budget);
        let (drain, parts) = (cluster.keys.drain(resource), cluster.keys.parts(resource));
        let counted = cluster.requests.token();
        self.runtime.spawn(async move {
            let lease = cluster.grant(seconds(lasting), budget).await?;
            let put = Txn::only_if(Compare::some_in(parts), Op::put(drain, Vec::new(), lease));
            let put = cluster.client.call(&put, budget, Repeat::Never).await;
            if put.is_ok_and(|(answer, _)| answer.succeeded) {
                drop(counted);
                sleep(lasting).await;
            }
            // This ends only this drain: the key of a later drain is on another etcd lease.
            cluster.revoke(&runtime, lease, budget);
            Ok::<(), Fault>(())
        });
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
