use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fencing_protocol::{Fault, Released, Renewed, Terms};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{sleep, timeout};

use super::locks::Node;
use super::renewals::Renewal;
use super::session::Session;
use super::sessions::Sessions;
use crate::lock::error::{NodeCause, ReleaseError};
use crate::lock::lease::held_lock::{HeldLock, SentRelease};
use crate::lock::lease::state::LeaseState;
use crate::lock::settings::Settings;
use crate::lock::sleep::sleep_until;
use crate::time::Time;

/// The nodes of one lease.
pub(super) struct HeldNodes {
    pub(super) sessions: Arc<Sessions>,
    pub(super) session: Arc<Session>,
    pub(super) nodes: Arc<[Node]>,
    /// The owner, and the name of the holder.
    pub(super) signature: String,
    pub(super) terms: Terms,
    pub(super) budget: Duration,
    /// When the lease counts from.
    pub(super) since: Mutex<Time>,
    /// The nodes are removed, or are going to be.
    ended: AtomicBool,
    /// The task that removes them when the lease has lapsed.
    lapse: OnceLock<AbortHandle>,
}

impl HeldNodes {
    pub(super) fn new(
        (sessions, session): (Arc<Sessions>, Arc<Session>),
        nodes: Arc<[Node]>,
        signature: String,
        settings: &Settings,
        since: Time,
    ) -> Arc<HeldNodes> {
        let (terms, budget) = (settings.terms(), settings.budget());
        let (since, ended, lapse) = (Mutex::new(since), AtomicBool::default(), OnceLock::new());
        let held =
            HeldNodes { sessions, session, nodes, signature, terms, budget, since, ended, lapse };
        let held = Arc::new(held);
        let lapse = held.session.runtime.spawn(Arc::clone(&held).remove_when_lapsed());
        let _ = held.lapse.set(lapse.abort_handle());
        held
    }

    /// Removes the nodes when the lease has lapsed, and its lock-delay after it: the session lives on.
    async fn remove_when_lapsed(self: Arc<Self>) {
        let clock = Arc::clone(&self.sessions.clock);
        loop {
            let end = *self.since.lock() + self.terms.closed_for();
            if clock.now() >= end {
                break;
            }
            sleep_until(&*clock, end).await;
        }
        if !self.ended.swap(true, Ordering::AcqRel) {
            let _counted = self.sessions.outstanding.token();
            let _ = Arc::clone(&self.session).release(Arc::clone(&self.nodes), self.owner()).await;
        }
    }

    fn owner(&self) -> String {
        self.signature.chars().take_while(|c| *c != ' ').collect()
    }

    /// Sends what the work sends first before it returns, outside of a runtime as well. A task does the rest.
    fn begin<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let (mut work, counted) = (work.boxed(), self.sessions.outstanding.token());
        let runtime = &self.session.runtime;
        let _entered = runtime.enter();
        let done = (&mut work).now_or_never();
        runtime.spawn(async move {
            let _counted = counted;
            match done {
                Some(done) => done,
                None => work.await,
            }
        })
    }
}

impl HeldLock for HeldNodes {
    fn renew(&self) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>> {
        Box::pin(async {
            let _asked = self.session.ask();
            let (renewed, answer) = oneshot::channel();
            let renewal = Renewal { nodes: Arc::clone(&self.nodes), renewed };
            let _ = self.session.renewals.send(renewal);
            let fault = match timeout(self.budget, answer).await {
                Ok(Ok(Ok(Some(since)))) => {
                    let mut known = self.since.lock();
                    *known = since.max(*known);
                    return Ok(Renewed::Until(self.terms.deadline(since)));
                }
                Ok(Ok(Ok(None))) => return Ok(Renewed::Superseded),
                Ok(Ok(Err(fault))) => fault,
                Ok(Err(_)) => Fault::Disconnected("the runtime is gone".into()),
                Err(_) => Fault::TimedOut,
            };
            Err(vec![self.sessions.cause(fault)])
        })
    }

    fn release(self: Arc<Self>, rest: Duration, _: bool) -> SentRelease {
        if self.ended.swap(true, Ordering::AcqRel) {
            return std::future::ready(Ok(Released::Lapsed)).boxed();
        }
        if let Some(lapse) = self.lapse.get() {
            lapse.abort();
        }
        let (session, nodes) = (Arc::clone(&self.session), Arc::clone(&self.nodes));
        let sent = if rest.is_zero() {
            self.begin(session.release(nodes, self.owner()))
        } else {
            // If this process ends before the rest does, the session times out, which takes longer.
            let later = Arc::clone(&session).release(Arc::clone(&nodes), self.owner());
            session.runtime.spawn(async move {
                sleep(rest).await;
                later.await
            });
            self.begin(session.keep(nodes, self.signature.clone(), rest))
        };
        async move {
            let fault = match timeout(self.budget, sent).await {
                Ok(Ok(Ok(released))) => return Ok(released),
                Ok(Ok(Err(fault))) => fault,
                Ok(Err(_)) => Fault::Disconnected("the runtime is gone".into()),
                Err(_) => Fault::TimedOut,
            };
            Err(ReleaseError { causes: vec![self.sessions.cause(fault)] })
        }
        .boxed()
    }

    /// A session is answered in order, but a request whose answer was lost is sent again later.
    fn releases_in_order(&self) -> bool {
        true
    }

    fn watched(&self, state: &Arc<LeaseState>) {
        self.session.watch(state);
    }
}
