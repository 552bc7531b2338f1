use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Mode, NonEmpty, Resource};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::Instrument;

use super::claim::{Claim, FoundHolder, MAX_LOCKS, Outcome};
use super::client::Repeat;
use super::held::HeldInEtcd;
use super::messages::{Answer, LeaseGrant, Op, Range, Status, Txn};
use super::session::{Cluster, EtcdSession, InDoubt, MIN_SECONDS, seconds};
use super::sessions::Sessions;
use crate::holder::HolderName;
use crate::lock::error::{AcquireError, NodeCause};
use crate::lock::lease::held_lock::Grant;
use crate::lock::service::backend::LockBackend;
use crate::lock::service::health::Health;
use crate::lock::settings::Settings;
use crate::lock::token_base::token;
use crate::lock::wait::acquirer::Ask;
use crate::lock::wait::backoff::draining;
use crate::lock::wait::release_notifications::ReleaseNotifications;
use crate::sequencer::Sequencer;
use crate::time::Clock;

/// Leases in an etcd cluster.
#[derive(derive_more::Debug)]
#[debug("{sessions:?}")]
pub struct EtcdCluster {
    pub(super) sessions: Arc<Sessions>,
    pub(super) holder: HolderName,
    pub(super) notifications: ReleaseNotifications,
    /// The resources that this process keeps others from joining, and until when.
    pub(super) drained: Mutex<HashMap<Resource, Instant>>,
}

/// Why an attempt was not granted.
enum Refusal {
    Held(FoundHolder),
    /// The session has ended, or its sentinel has changed: ask again.
    Again,
    Failed(Fault),
}

impl LockBackend for Arc<EtcdCluster> {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.sessions.cluster.clock
    }

    /// Asks for all of them in one transaction. Dropped at any await point, or without an answer, it has the session
    /// take back what it may get.
    async fn attempt(
        &self,
        resources: &NonEmpty<Resource>,
        ask: Ask,
        settings: &Settings,
    ) -> Result<Grant, AcquireError> {
        let (first, count) = (resources.first(), resources.len());
        if count > MAX_LOCKS {
            return Err(AcquireError::WrongCount { count, most: MAX_LOCKS });
        }
        let (terms, budget) = (settings.terms(), settings.budget());
        let (keys, end) = (&self.sessions.cluster.keys, Instant::now() + budget * 2);
        let closed_for = terms.closed_for();
        let claim = Arc::new(Claim::new(keys, resources, ask.mode, &self.holder, closed_for));
        loop {
            let session = self.sessions.get(settings).await;
            let session = session.map_err(|fault| self.unavailable(first, fault))?;
            // What this process has released goes first.
            session.clear(&claim, Instant::now() + budget / 2).await;
            match session.acquire(&claim, settings).await {
                Ok(grant) => return Ok(grant),
                Err(Refusal::Again) if Instant::now() < end => {}
                Err(Refusal::Again) => return Err(self.unavailable(first, Fault::TimedOut)),
                Err(Refusal::Failed(fault)) => return Err(self.unavailable(first, fault)),
                Err(Refusal::Held(FoundHolder { resource, holder, shared, left })) => {
                    if shared && ask.mode == Mode::Exclusive && ask.drains {
                        self.drain(&resource, draining(settings, budget / 2, ask.end), budget);
                    }
                    let retry_after = session.closes_in(&resource).unwrap_or(left);
                    return Err(AcquireError::Held { resource, retry_after, holder });
                }
            }
        }
    }

    fn notifications(&self) -> &ReleaseNotifications {
        &self.notifications
    }

    async fn health(&self, settings: &Settings) -> Health {
        self.probe(settings.budget()).await
    }

    fn failing(&self, fault: Fault) -> Health {
        Health::of_one(vec![self.sessions.cluster.cause(fault)])
    }

    fn unavailable(&self, resource: &Resource, fault: Fault) -> AcquireError {
        let cause = self.sessions.cluster.cause(fault);
        AcquireError::Unavailable { resource: resource.clone(), cause }
    }

    async fn settle(&self) {
        self.sessions.settle().await;
    }
}

impl Cluster {
    pub(super) fn cause(&self, cause: Fault) -> NodeCause {
        NodeCause { node: self.client.name(), cause }
    }
}

impl EtcdSession {
    async fn acquire(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        settings: &Settings,
    ) -> Result<Grant, Refusal> {
        let (cluster, terms) = (&self.cluster, settings.terms());
        let (start, before) = (cluster.clock.now(), cluster.largest.get());
        let modified = self.modified();
        let acquire = claim.acquire(&cluster.keys, self.lease, modified);
        // An owner in doubt is never granted.
        let doubt = InDoubt::new(self, claim);
        let answer = match cluster.client.call(&acquire, settings.budget(), Repeat::Never).await {
            Ok((answer, _)) => answer,
            Err(failure) if failure.is_lease_gone() => {
                doubt.decided();
                self.end();
                return Err(Refusal::Again);
            }
            Err(failure) => {
                if !failure.in_doubt {
                    doubt.decided();
                }
                return Err(Refusal::Failed(failure.fault));
            }
        };
        let revision = answer.header().revision;
        let outcome = claim.outcome(&answer, revision, (self.created, modified));
        let outcome = outcome.map_err(|text| Refusal::Failed(Fault::InvalidReply(text)))?;
        let (base, revision, counted) = match outcome {
            Outcome::Granted { base, revision, counted } => (base, revision, counted),
            outcome => {
                doubt.decided();
                return Err(match outcome {
                    Outcome::Held(found) => Refusal::Held(found),
                    Outcome::Moved(modified) => {
                        self.note_modified(modified);
                        Refusal::Again
                    }
                    _ => {
                        self.end();
                        Refusal::Again
                    }
                });
            }
        };
        let count = |revision: i64| base.saturating_add(u64::try_from(revision).unwrap_or(0));
        let largest = cluster.largest.take(before, count(revision));
        largest.map_err(Refusal::Failed)?;
        let token = token(base, u64::try_from(counted).unwrap_or(0)).map_err(Refusal::Failed)?;
        let deadline = self.deadline(&terms, start);
        if cluster.clock.now() >= deadline {
            return Err(Refusal::Failed(Fault::GrantedTooLate));
        }
        if !self.hold(claim, deadline + terms.lock_delay) {
            return Err(Refusal::Again);
        }
        // From now on the lease releases.
        doubt.decided();
        let locks = claim.locks.clone().map(|(resource, _)| Sequencer::new(resource, token));
        let (session, claim) = (Arc::clone(self), Arc::clone(claim));
        let held = Arc::new(HeldInEtcd { session, claim, revision, terms });
        Ok(Grant { locks, deadline, held })
    }
}

impl EtcdCluster {
    /// Keeps others from joining the shared lock, in a separate task. If that fails, the waiter asks again.
    fn drain(&self, resource: &Resource, lasting: Duration, budget: Duration) {
        let now = Instant::now();
        {
            let mut drained = self.drained.lock();
            drained.retain(|_, until| *until > now);
            if drained.get(resource).is_some_and(|until| *until > now + lasting / 2) {
                return;
            }
            drained.insert(resource.clone(), now + lasting);
        }
        let (cluster, resource) = (Arc::clone(&self.sessions.cluster), resource.clone());
        let counted = cluster.requests.token();
        let drain = async move {
            let seconds = i64::try_from(seconds(lasting)).unwrap_or(i64::MAX);
            let drained = async {
                let lease = cluster.client.ask(&LeaseGrant { seconds }, budget).await?.id;
                let put = Op::put(cluster.keys.drain(&resource), Vec::new(), lease);
                let put = Txn { success: vec![put], ..Txn::default() };
                cluster.client.ask(&put, budget).await
            };
            if let Err(failure) = drained.await {
                tracing::debug!(%resource, fault = %failure.fault, "others may still join");
            }
            drop(counted);
        };
        tokio::spawn(drain.in_current_span());
    }

    /// Asks each member for its state, and the cluster for what only a majority can answer.
    async fn probe(&self, budget: Duration) -> Health {
        let cluster = &self.sessions.cluster;
        let base = Range::one(cluster.keys.base());
        let read = cluster.client.ask(&base, budget);
        let members = cluster.client.members().map(async |(number, name)| {
            let cause = match cluster.client.ask_member(number, &Status {}, budget).await {
                Err(failure) => failure.fault,
                Ok(status) if status.leader == 0 => Fault::Refused("it has no leader".into()),
                Ok(status) if !status.errors.is_empty() => Fault::Refused(status.errors.join(", ")),
                Ok(_) => return None,
            };
            Some(NodeCause { node: name.to_owned(), cause })
        });
        let members = futures_util::future::join_all(members);
        let (read, causes) = futures_util::future::join(read, members).await;
        let mut health = Health::of_one(causes.into_iter().flatten().collect());
        // One member of three may be down.
        health.granting = usize::from(read.is_ok());
        if let Err(failure) = read {
            health.causes.push(cluster.cause(failure.fault));
        }
        health
    }
}

/// A TTL must be as long as the shortest etcd lease.
pub(super) const MIN_TTL: Duration = Duration::from_secs(MIN_SECONDS);
