use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Owner, Released, Renewed, Terms};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::change::{Found, NodeChange};
use super::claim::contents;
use super::fault;
use super::paths::{ALONE, LockNode};
use super::session::{Held, ZookeeperRenewal, ZookeeperSession};
use super::sessions::ZookeeperSessions;
use crate::lock::error::Loss;
use crate::lock::lease::state::LeaseState;
use crate::lock::service::backend::{HeldLock, NodeCause, ReleaseError, SentRelease};
use crate::lock::sleep::answered;
use crate::sequencer::Sequencer;
use crate::time::Time;

#[derive(Clone)]
pub(super) struct HeldNodes {
    pub(super) sessions: Arc<ZookeeperSessions>,
    pub(super) session: Arc<ZookeeperSession>,
    pub(super) owner: Owner,
    /// The first of its locks.
    pub(super) first: Sequencer,
    /// The owner, and the name of the holder.
    pub(super) signature: String,
    pub(super) terms: Terms,
    pub(super) budget: Duration,
}

impl HeldLock for HeldNodes {
    fn renew(&self, resumes: bool) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>> {
        Box::pin(async move {
            let mut renewed = self.renew_here().await;
            if resumes && renewed == Ok(None) && !self.session.has_ended() {
                // A task is not dropped with this: what was moved is swept when it has lapsed.
                let (held, outstanding) = (self.clone(), &self.sessions.outstanding);
                let moved = outstanding.track_future(async move { held.take_over().await });
                renewed = answered(Instant::now() + self.budget, self.session.runtime.spawn(moved)).await;
            }
            match renewed {
                Ok(Some(since)) => Ok(Renewed::Until(self.terms.deadline(since))),
                Ok(None) => {
                    self.session.note(self.owner, |held| held.seen = false);
                    Ok(Renewed::Superseded)
                }
                Err(fault) => Err(vec![self.sessions.cause(fault)]),
            }
        })
    }

    fn ticket_owner(&self) -> Option<String> {
        self.session.note(self.owner, |held| held.seen = false);
        Some(self.signature.clone())
    }

    /// The first requests are sent before this returns, outside of a runtime as well. A task does the rest.
    fn release(self: Arc<Self>, rest: Duration, _: bool) -> SentRelease {
        let Some(Held { nodes, seen, .. }) = self.session.leases.lock().remove(&self.owner) else {
            return std::future::ready(Ok(Released::Lapsed)).boxed();
        };
        let session = Arc::clone(&self.session);
        let becomes = (!rest.is_zero()).then(|| contents(&format!("{}.", self.signature), rest, &session));
        let found = if seen { Found::Seen } else { Found::Anywhere };
        // The contents name this session, so a lock that another process keeps closed is not removed.
        let removing = becomes.clone().map(|begins| NodeChange { begins, found, becomes: None });
        let leaving = NodeChange { begins: format!("{}\n", self.signature), found, becomes };
        let mut left = Arc::clone(&session).leave(Arc::clone(&nodes), leaving).boxed();
        let runtime = session.runtime.clone();
        let _entered = runtime.enter();
        let done = (&mut left).now_or_never();
        let counted = self.sessions.outstanding.token();
        let sent = runtime.spawn(async move {
            let counted = counted;
            let left = if let Some(done) = done { done } else { left.await };
            // One of several may have lapsed. If this process ends first, the session times out, which takes longer.
            if let Some(removing) = removing {
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

    /// A session answers in order, but repeats what got no answer. A lock that may have moved is looked for first.
    fn releases_in_order(&self) -> bool {
        self.session.note(self.owner, |held| held.seen).unwrap_or(true)
    }

    fn watched(&self, state: &Arc<LeaseState>) {
        let noted = self.session.note(self.owner, |held| held.state = Arc::downgrade(state));
        if let Some(loss) = self.session.loss() {
            self.session.end(loss);
            state.close(loss);
        } else if noted.is_none() {
            state.close(Loss::Expired);
        }
    }
}

impl HeldNodes {
    /// Renews what is on this session. Returns when the lease counts from, unless it has lost a lock.
    async fn renew_here(&self) -> Result<Option<Time>, Fault> {
        let nodes = self.session.note(self.owner, |held| Arc::clone(&held.nodes));
        let Some(nodes) = nodes else { return Ok(None) };
        let (renewed, answer) = oneshot::channel();
        let _ = self.session.renewals.send(ZookeeperRenewal { nodes, renewed });
        let since = answered(Instant::now() + self.budget, answer).await?;
        Ok(since.filter(|since| self.counts_from(*since)))
    }

    /// Moves the lock to this session, wherever it is, if it is still the owner's.
    async fn take_over(&self) -> Result<Option<Time>, Fault> {
        let (session, folder) = (&self.session, self.sessions.paths.lock(&self.first.resource));
        let node = LockNode { path: format!("{folder}/{ALONE}"), folder, czxid: 0, version: 0 };
        let becomes = Some(contents(&self.signature, self.terms.closed_for(), session));
        let change = NodeChange { begins: format!("{}\n", self.signature), found: Found::Anywhere, becomes };
        let start = self.sessions.clock.now();
        let Some(czxid) = session.change(&node, &change).await.map_err(fault::of)? else { return Ok(None) };
        session.hold(self.owner, LockNode { czxid, ..node }, start);
        // Another process may have renewed the old node until now: the lock is not swept before that renewal lapses.
        self.counts_from(self.sessions.clock.now());
        Ok(Some(start))
    }

    /// Notes a renewal. Returns false if the nodes may be swept now.
    fn counts_from(&self, since: Time) -> bool {
        self.session.note(self.owner, |held| held.since = held.since.max(since)).is_some()
    }
}
