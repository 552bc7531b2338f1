use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fencing_protocol::{Fault, NonEmpty, Owner, Resource};
use scopeguard::{ScopeGuard, guard};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::claim::{CLOSED, ZookeeperClaim, ZookeeperRefusal, contents};
use super::fault;
use super::held::HeldNodes;
use super::session::Held;
use super::sessions::ZookeeperSessions;
use crate::holder::{Holder, HolderName};
use crate::lock::service::backend::{
    AcquireError, Ask, Grant, Health, HeldLock, LeaseTicket, LockBackend, NodeCause, Settings, draining,
};
use crate::lock::sleep::answered;
use crate::random;

/// A ZooKeeper ensemble, as one lock service uses it.
#[derive(derive_more::Debug)]
#[debug("ZookeeperBackend({:?})", sessions.address)]
pub struct ZookeeperBackend {
    pub(super) sessions: Arc<ZookeeperSessions>,
    pub(super) holder: HolderName,
}

/// What was granted, until a lease takes it. Dropped, it is released.
type UnclaimedGrant = ScopeGuard<Grant, fn(Grant)>;

impl LockBackend for Arc<ZookeeperBackend> {
    /// Asks for all of them in one write. Dropped at any await point, or late, it releases what it gets.
    async fn attempt(&self, wanted: &NonEmpty<Resource>, ask: Ask, settings: &Settings) -> Result<Grant, AcquireError> {
        let (terms, end) = (settings.terms(), Instant::now() + settings.budget());
        // A task is not dropped with the attempt: what was asked for is released when it is known.
        let acquire = Arc::clone(self).acquire(wanted.clone(), ask, settings.clone(), end);
        let acquire = self.sessions.outstanding.track_future(acquire.in_current_span());
        let fault = match answered(end, tokio::spawn(acquire)).await {
            Ok(unclaimed) if self.sessions.clock.now() < unclaimed.deadline => {
                return Ok(ScopeGuard::into_inner(unclaimed));
            }
            Ok(_) => Fault::GrantedTooLate,
            Err(ZookeeperRefusal::Held { resource, contents, .. }) => {
                let text = contents.and_then(|bytes| String::from_utf8(bytes).ok());
                let mut lines = text.as_deref().unwrap_or_default().lines();
                let holder = Holder::read(lines.next().unwrap_or_default());
                let left = lines.next().and_then(|left| left.parse().ok());
                let retry_after = left.map_or(terms.closed_for(), Duration::from_millis);
                return Err(AcquireError::Held { resource, retry_after, holder });
            }
            Err(ZookeeperRefusal::Fault(fault)) => fault,
        };
        Err(AcquireError::unavailable(wanted.first(), self.sessions.cause(fault)))
    }

    async fn held(&self, ticket: &LeaseTicket, settings: &Settings) -> Result<Option<Arc<dyn HeldLock>>, NodeCause> {
        let (sessions, terms, budget) = (Arc::clone(&self.sessions), settings.terms(), settings.budget());
        let LeaseTicket { sequencer: first, owner: signature, .. } = ticket.clone();
        let Some(owner) = signature.get(..32).and_then(Owner::parse) else { return Ok(None) };
        let session = sessions.get(terms.closed_for(), budget).await.map_err(|fault| sessions.cause(fault))?;
        Ok(Some(Arc::new(HeldNodes { sessions, session, owner, first, signature, terms, budget })))
    }

    async fn health(&self, settings: &Settings) -> Health {
        let probed = self.probe(settings).await;
        Health::of_one(probed.err().map(|fault| self.sessions.cause(fault)).into_iter().collect())
    }
}

impl ZookeeperBackend {
    /// Asks whether a majority answers, within the budget.
    async fn probe(&self, settings: &Settings) -> Result<(), Fault> {
        let (end, budget) = (Instant::now() + settings.budget(), settings.budget());
        let session = self.sessions.get(settings.terms().closed_for(), budget).await?;
        let closed = async {
            session.client.set_data(&session.node, b"", None).await?;
            // Behind the write.
            session.client.check_stat(&self.sessions.paths.closed()).await
        };
        match timeout_at(end, closed).await.map_err(|_| Fault::TimedOut)?.map_err(fault::of)? {
            Some(_) => Err(Fault::NotNow(CLOSED.into())),
            None => Ok(()),
        }
    }

    /// Makes one attempt, whose caller may have given up.
    async fn acquire(
        self: Arc<Self>,
        resources: NonEmpty<Resource>,
        ask: Ask,
        settings: Settings,
        end: Instant,
    ) -> Result<UnclaimedGrant, ZookeeperRefusal> {
        let (sessions, terms, budget) = (&self.sessions, settings.terms(), settings.budget());
        let mut again = true;
        loop {
            let session = sessions.get(terms.closed_for(), budget).await?;
            let owner = Owner(random::stamped());
            let signature = format!("{owner} {}", self.holder.as_str());
            let contents = contents(&signature, terms.closed_for(), &session);
            let claim = ZookeeperClaim { resources: resources.clone(), mode: ask.mode, owner, contents };
            // Before the servers are asked: their timeout counts from a later moment.
            let began = sessions.clock.now();
            let mut take = pin!(Arc::clone(&session).take(sessions, &claim));
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
                    if let (ZookeeperRefusal::Held { resource, shared: true, .. }, true) = (&refusal, ask.drains) {
                        let lasting = draining(&settings, budget, ask.end);
                        session.drain(sessions.paths.lock(resource), Instant::now() + lasting);
                    }
                    return Err(refusal);
                }
                Ok((nodes, locks)) => {
                    nodes.iter().for_each(|node| session.end_drain(&node.folder));
                    let held = Held { nodes, since: began, state: Weak::new(), seen: true };
                    session.leases.lock().insert(owner, held);
                    let (sessions, first) = (Arc::clone(sessions), locks.first().clone());
                    let held = Arc::new(HeldNodes { sessions, session, owner, first, signature, terms, budget });
                    return Ok(guard(Grant { locks, deadline: terms.deadline(began), held }, |unclaimed| {
                        drop(unclaimed.held.release(Duration::ZERO, false));
                    }));
                }
            }
        }
    }
}
