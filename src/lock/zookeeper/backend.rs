use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fencing_protocol::{Fault, NonEmpty, Owner, Renewed, Resource, Terms};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use scopeguard::{ScopeGuard, guard};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::change::{Locate, NodeChange};
use super::claim::{CLOSED, ZookeeperClaim, ZookeeperRefusal, base_of};
use super::fault;
use super::paths::{ALONE, LockNode, Paths};
use super::session::{Ensemble, Held, ZookeeperRenewal, ZookeeperSession};
use super::url::ZookeeperUrl;
use crate::lock::backend::{
    AcquireError, Ask, Grant, Health, HeldLock, LeaseTicket, LockBackend, NodeCause, SentRelease, Settings, draining,
};
use crate::lock::engine::sessions::Sessions;
use crate::lock::engine::{Engine, EngineSession, FoundHolder};
use crate::lock::error::Loss;
use crate::lock::lease::state::LeaseState;
use crate::lock::runtime::answered;
use crate::lock::settings::BuildError;
use crate::sequencer::Sequencer;
use crate::time::Time;

/// What was granted, until a lease takes it. Dropped, it is released.
type UnclaimedGrant = ScopeGuard<Grant, fn(Grant)>;

impl Engine for Ensemble {
    type Session = ZookeeperSession;

    const OPENING_BUDGETS: u32 = 1;

    fn new(url: &str, settings: &Settings) -> Result<Ensemble, BuildError> {
        let address = ZookeeperUrl::parse(url).map_err(|problem| BuildError::new("url", problem))?;
        if settings.namespace.is_empty() {
            return Err(BuildError::new("namespace", "it is empty"));
        }
        let paths = Paths::new(&address.chroot, &settings.namespace);
        let (clock, (largest, outstanding)) = (Arc::clone(&settings.clock), Default::default());
        Ok(Ensemble { address, paths, clock, largest, outstanding })
    }

    fn outstanding(&self) -> &TaskTracker {
        &self.outstanding
    }

    async fn start(self: Arc<Self>, settings: Settings) -> Result<Arc<ZookeeperSession>, Fault> {
        ZookeeperSession::start(self, settings.terms().closed_for(), settings.budget()).await
    }
}

impl LockBackend for Arc<Sessions<Ensemble>> {
    /// Asks for all of them in one write. Dropped at any await point, or late, it releases what it gets.
    async fn attempt(&self, wanted: &NonEmpty<Resource>, ask: Ask, settings: &Settings) -> Result<Grant, AcquireError> {
        let end = Instant::now() + settings.budget();
        // A task is not dropped with the attempt: what was asked for is released when it is known.
        let acquire = acquire(Arc::clone(self), wanted.clone(), ask, settings.clone(), end);
        let acquire = self.engine.outstanding.track_future(acquire.in_current_span());
        let fault = match answered(end, tokio::spawn(acquire)).await {
            Ok(unclaimed) if self.engine.clock.now() < unclaimed.deadline => {
                return Ok(ScopeGuard::into_inner(unclaimed));
            }
            Ok(_) => Fault::GrantedTooLate,
            Err(ZookeeperRefusal::Held(found)) => return Err(found.into()),
            Err(ZookeeperRefusal::Fault(fault)) => fault,
        };
        Err(AcquireError::unavailable(wanted.first(), self.engine.cause(fault)))
    }

    async fn resumed(&self, ticket: &LeaseTicket, settings: &Settings) -> Result<Option<Arc<dyn HeldLock>>, NodeCause> {
        let (terms, budget) = (settings.terms(), settings.budget());
        let LeaseTicket { sequencer: first, owner: signature, .. } = ticket.clone();
        let Some(owner) = signature.get(..32).and_then(Owner::parse) else { return Ok(None) };
        let session = self.get(settings).await.map_err(|fault| self.engine.cause(fault))?;
        Ok(Some(Arc::new(HeldNodes { session, owner, first, signature, terms, budget })))
    }

    async fn health(&self, settings: &Settings) -> Health {
        let probed = probe(self, settings).await;
        Health::of_one(probed.err().map(|fault| self.engine.cause(fault)).into_iter().collect())
    }
}

/// Asks whether a majority answers, within the budget.
async fn probe(sessions: &Sessions<Ensemble>, settings: &Settings) -> Result<(), Fault> {
    let end = Instant::now() + settings.budget();
    let session = sessions.get(settings).await?;
    let Ensemble { paths, largest, .. } = &*sessions.engine;
    let before = largest.get();
    let asked = async {
        let written = session.client.set_data(&session.node, b"", None).await?;
        // Behind the write.
        let base = base_of(session.client.get_data(&paths.base()).await)?;
        Ok((written.mzxid, base, session.client.check_stat(&paths.closed()).await?))
    };
    match timeout_at(end, asked).await.map_err(|_| Fault::TimedOut)?.map_err(fault::of)? {
        (.., Some(_)) => Err(Fault::NotNow(CLOSED.into())),
        (zxid, base, None) => {
            let base = sessions.engine.check_base(base)?;
            largest.take(before, base.saturating_add_signed(zxid))
        }
    }
}

/// Makes one attempt, whose caller may have given up.
async fn acquire(
    sessions: Arc<Sessions<Ensemble>>,
    resources: NonEmpty<Resource>,
    ask: Ask,
    settings: Settings,
    end: Instant,
) -> Result<UnclaimedGrant, ZookeeperRefusal> {
    let (terms, budget) = (settings.terms(), settings.budget());
    let mut again = true;
    loop {
        let session = sessions.get(&settings).await?;
        let (owner, signature) = settings.new_owner();
        let closed_for = terms.closed_for();
        let contents = session.contents(&signature, closed_for);
        let claim = ZookeeperClaim { resources: resources.clone(), mode: ask.mode, owner, closed_for, contents };
        // Before the servers are asked: their timeout counts from a later moment.
        let began = sessions.engine.clock.now();
        let mut take = pin!(Arc::clone(&session).take(&claim));
        let taken = match timeout_at(end, &mut take).await {
            Ok(taken) => taken,
            Err(_) => {
                let _late = session.late.token();
                take.await
            }
        };
        match taken {
            // The servers had ended the session.
            Err(ZookeeperRefusal::Fault(_)) if again && session.has_ended() => again = false,
            Err(refusal) => {
                // Nobody is to join those who share the lock, if the caller waits.
                if let (ZookeeperRefusal::Held(FoundHolder { resource, shared: true, .. }), true) =
                    (&refusal, ask.drains)
                {
                    let lasting = draining(&settings, budget, ask.end);
                    session.drain(sessions.engine.paths.lock(resource), Instant::now() + lasting);
                }
                return Err(refusal);
            }
            Ok((nodes, locks)) => {
                nodes.iter().for_each(|node| session.end_drain(&node.folder));
                let held = Held { nodes, since: began, state: Weak::new(), pristine: true };
                session.leases.lock().insert(owner, held);
                let first = locks.first().clone();
                let held = Arc::new(HeldNodes { session, owner, first, signature, terms, budget });
                let grant = Grant { locks, asked: began, deadline: terms.deadline(began), held };
                return Ok(guard(grant, |unclaimed| drop(unclaimed.held.release(Duration::ZERO, false))));
            }
        }
    }
}

#[derive(Clone)]
struct HeldNodes {
    session: Arc<ZookeeperSession>,
    owner: Owner,
    /// The first of its locks.
    first: Sequencer,
    /// The owner, and the name of the holder.
    signature: String,
    terms: Terms,
    budget: Duration,
}

impl HeldLock for HeldNodes {
    fn renew(&self, resumes: bool) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>> {
        Box::pin(async move {
            let mut renewed = self.renew_here().await;
            if resumes && renewed == Ok(None) && !self.session.has_ended() {
                // A task is not dropped with this: what was moved is swept when it has lapsed.
                let (held, outstanding) = (self.clone(), &self.session.ensemble.outstanding);
                let moved = outstanding.track_future(async move { held.take_over().await });
                renewed = answered(Instant::now() + self.budget, self.session.runtime.spawn(moved)).await;
            }
            match renewed {
                Ok(Some(since)) => Ok(Renewed::Until(self.terms.deadline(since))),
                Ok(None) => {
                    self.session.note(self.owner, |held| held.pristine = false);
                    Ok(Renewed::Superseded)
                }
                Err(fault) => Err(vec![self.session.ensemble.cause(fault)]),
            }
        })
    }

    fn hand_out(&self) -> String {
        self.session.note(self.owner, |held| held.pristine = false);
        self.signature.clone()
    }

    /// The first requests are sent before this returns, outside of a runtime as well. A task does the rest.
    fn release(self: Arc<Self>, rest: Duration, _: bool) -> SentRelease {
        let Some(Held { nodes, pristine, .. }) = self.session.leases.lock().remove(&self.owner) else {
            return std::future::ready(Ok(false)).boxed();
        };
        let session = Arc::clone(&self.session);
        let becomes = (!rest.is_zero()).then(|| session.contents(&format!("{}.", self.signature), rest));
        let locate = if pristine { Locate::AsCreated } else { Locate::Anywhere };
        // The contents name this session, so a lock that another process keeps closed is not removed.
        let removing = becomes.clone().map(|begins| NodeChange { begins, locate, becomes: None });
        let leaving = NodeChange { begins: format!("{}\n", self.signature), locate, becomes };
        let mut left = Arc::clone(&session).leave(Arc::clone(&nodes), leaving).boxed();
        let runtime = session.runtime.clone();
        let _entered = runtime.enter();
        let done = (&mut left).now_or_never();
        let counted = self.session.ensemble.outstanding.token();
        let sent = runtime.spawn(async move {
            let counted = counted;
            let left = match done {
                Some(done) => done,
                None => left.await,
            };
            // One of several may have lapsed. If this process ends before the rest does, the session times out, which
            // takes longer.
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
            released.map_err(|fault| vec![self.session.ensemble.cause(fault)])
        }
        .boxed()
    }

    /// A session is answered in order, but a request whose answer was lost is sent again later. A lock that may
    /// have been moved is looked for first.
    fn releases_in_order(&self) -> bool {
        self.session.note(self.owner, |held| held.pristine).unwrap_or(true)
    }

    fn attach_state(&self, state: &Arc<LeaseState>) {
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
        let (session, folder) = (&self.session, self.session.ensemble.paths.lock(&self.first.resource));
        let node = LockNode { path: format!("{folder}/{ALONE}"), folder, czxid: 0, version: 0 };
        let becomes = Some(session.contents(&self.signature, self.terms.closed_for()));
        let change = NodeChange { begins: format!("{}\n", self.signature), locate: Locate::Anywhere, becomes };
        let start = self.session.ensemble.clock.now();
        let Some(czxid) = session.change(&node, &change).await.map_err(fault::of)? else { return Ok(None) };
        session.hold(self.owner, LockNode { czxid, ..node }, start);
        // Another process may have renewed the old node until now: the lock is not swept before that renewal lapses.
        self.counts_from(self.session.ensemble.clock.now());
        Ok(Some(start))
    }

    /// Notes a renewal. Returns false if the nodes may be swept now.
    fn counts_from(&self, since: Time) -> bool {
        self.session.note(self.owner, |held| held.since = held.since.max(since)).is_some()
    }
}
