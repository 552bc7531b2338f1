use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fencing_protocol::{Released, Renewed, Terms};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::claim::contents;
use super::nodes::Leaving;
use super::session::{Held, Renewal, Session};
use super::sessions::Sessions;
use crate::lock::error::{NodeCause, ReleaseError};
use crate::lock::lease::held_lock::{HeldLock, SentRelease};
use crate::lock::lease::state::LeaseState;
use crate::lock::sleep::answered;

/// The nodes of one lease.
pub(super) struct HeldNodes {
    pub(super) sessions: Arc<Sessions>,
    pub(super) session: Arc<Session>,
    pub(super) held: Arc<Held>,
    /// The owner, and the name of the holder.
    pub(super) signature: String,
    pub(super) terms: Terms,
    pub(super) budget: Duration,
}

impl HeldLock for HeldNodes {
    fn renew(&self) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>> {
        Box::pin(async {
            let (renewed, answer) = oneshot::channel();
            let renewal = Renewal { nodes: Arc::clone(&self.held.nodes), renewed };
            let _ = self.session.renewals.send(renewal);
            match answered(Instant::now() + self.budget, answer).await {
                Ok(Some(since)) => {
                    let mut known = self.held.since.lock();
                    *known = since.max(*known);
                    Ok(Renewed::Until(self.terms.deadline(since)))
                }
                Ok(None) => {
                    self.held.is_lost.store(true, Ordering::Release);
                    Ok(Renewed::Superseded)
                }
                Err(fault) => Err(vec![self.sessions.cause(fault)]),
            }
        })
    }

    /// The first requests are sent before this returns, outside of a runtime as well. A task does the rest.
    fn release(self: Arc<Self>, rest: Duration, _: bool) -> SentRelease {
        if !self.session.forget(self.held.owner) {
            return std::future::ready(Ok(Released::Lapsed)).boxed();
        }
        let (session, nodes) = (Arc::clone(&self.session), Arc::clone(&self.held.nodes));
        let keep = || contents(&format!("{}.", self.signature), rest, &session);
        let kept = (!rest.is_zero()).then(keep);
        let seen = !self.held.is_lost.load(Ordering::Acquire);
        let leaving = Leaving { owner: self.held.owner, kept, seen };
        let removing = Leaving { kept: None, ..leaving.clone() };
        let mut left = Arc::clone(&session).leave(Arc::clone(&nodes), leaving).boxed();
        let runtime = session.runtime.clone();
        let _entered = runtime.enter();
        let done = (&mut left).now_or_never();
        let counted = self.sessions.outstanding.token();
        let sent = runtime.spawn(async move {
            let counted = counted;
            let left = match done {
                Some(done) => done,
                None => left.await,
            };
            // If this process ends before the rest does, the session times out, which takes longer.
            if !rest.is_zero() && left != Ok(Released::Lapsed) {
                drop(counted);
                tokio::spawn(async move {
                    sleep(rest).await;
                    session.leave(nodes, removing).await
                });
            }
            left
        });
        async move {
            let released = answered(Instant::now() + self.budget, sent).await;
            released.map_err(|fault| ReleaseError { causes: vec![self.sessions.cause(fault)] })
        }
        .boxed()
    }

    /// A session is answered in order, but a request whose answer was lost is sent again later.
    fn releases_in_order(&self) -> bool {
        true
    }

    fn watched(&self, state: &Arc<LeaseState>) {
        let _ = self.held.state.set(Arc::downgrade(state));
        if let Some(loss) = self.session.loss() {
            self.session.end(loss);
            self.held.close(loss);
        }
    }
}
