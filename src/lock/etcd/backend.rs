use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fencing_protocol::{Fault, Mode, NonEmpty, Renewed, Resource, Terms};
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::TaskTracker;

use super::claim::{EtcdClaim, EtcdRefusal, MAX_LOCKS, number};
use super::client::{EtcdClient, Repeat};
use super::cluster::Cluster;
use super::fault::EtcdFailure;
use super::keys::EtcdKeys;
use super::messages::{EtcdAnswer, Op, Range, Status, Txn};
use super::session::{EtcdSession, decided, in_doubt, seconds};
use super::upkeep::start;
use super::url::EtcdUrl;
use crate::lock::backend::{
    AcquireError, Ask, Grant, Health, HeldLock, LeaseTicket, LockBackend, NodeCause, SentRelease, Settings, draining,
};
use crate::lock::engine::sessions::Sessions;
use crate::lock::engine::token_base::{token, went_back};
use crate::lock::engine::{Engine, EngineSession};
use crate::lock::error::Loss;
use crate::lock::lease::state::LeaseState;
use crate::lock::runtime::answered;
use crate::lock::settings::BuildError;
use crate::sequencer::Sequencer;

/// The pause before the next try to move a lock to this session.
const PAUSE: Duration = Duration::from_millis(50);

impl Engine for Cluster {
    type Session = EtcdSession;

    const OPENING_BUDGETS: u32 = 2;

    fn new(url: &str, settings: &Settings) -> Result<Cluster, BuildError> {
        let client = EtcdClient::new(EtcdUrl::read(url)?);
        let keys = EtcdKeys::new(&settings.namespace).map_err(|problem| BuildError::new("namespace", problem))?;
        let (budget, clock) = (settings.budget(), Arc::clone(&settings.clock));
        let (requests, largest, warned) = Default::default();
        Ok(Cluster { client, keys, clock, largest, budget, requests, warned })
    }

    fn outstanding(&self) -> &TaskTracker {
        &self.requests
    }

    fn start(self: Arc<Self>, settings: Settings) -> impl Future<Output = Result<Arc<EtcdSession>, Fault>> + Send {
        self.requests.clone().track_future(start(self, settings))
    }
}

impl LockBackend for Arc<Sessions<Cluster>> {
    /// Requests all of them in one transaction. If this is dropped at any await point, or gets no answer, the session
    /// releases what it may have been granted.
    async fn attempt(&self, wanted: &NonEmpty<Resource>, ask: Ask, settings: &Settings) -> Result<Grant, AcquireError> {
        let (first, count) = (wanted.first(), wanted.len());
        if count > MAX_LOCKS {
            return Err(AcquireError::WrongCount { count, most: MAX_LOCKS });
        }
        let budget = settings.budget();
        let end = Instant::now() + budget * 2;
        let claim = Arc::new(EtcdClaim::new(&self.engine.keys, wanted, ask.mode, settings));
        let unavailable = |fault| AcquireError::unavailable(first, self.engine.cause(fault));
        loop {
            let session = timeout_at(end, self.get(settings)).await.unwrap_or(Err(Fault::TimedOut));
            let session = session.map_err(unavailable)?;
            // What this process has released goes first.
            session.clear(&claim, end.min(Instant::now() + budget / 2)).await;
            match session.acquire(&claim, settings).await {
                Ok(grant) => return Ok(grant),
                Err(EtcdRefusal::Moved | EtcdRefusal::Over) if Instant::now() < end => {}
                Err(EtcdRefusal::Moved | EtcdRefusal::Over) => return Err(unavailable(Fault::TimedOut)),
                Err(EtcdRefusal::Failed(failure)) => return Err(unavailable(failure.fault)),
                Err(EtcdRefusal::Held(mut found)) => {
                    if found.shared && ask.mode == Mode::Exclusive && ask.drains {
                        session.drain(&found.resource, draining(settings, budget / 2, ask.end));
                    }
                    // The lock does not say yet that this process has released it early.
                    let known = session.held_for(&found.resource);
                    found.left = known.map_or(found.left, |known| found.left.min(known));
                    return Err(found.into());
                }
            }
        }
    }

    async fn resumed(&self, ticket: &LeaseTicket, settings: &Settings) -> Result<Option<Arc<dyn HeldLock>>, NodeCause> {
        let Some(claim) = EtcdClaim::of(&self.engine.keys, ticket) else { return Ok(None) };
        let session = self.get(settings).await.map_err(|fault| self.engine.cause(fault))?;
        Ok(Some(Arc::new(HeldInEtcd { session, claim: Arc::new(claim), terms: settings.terms() })))
    }

    /// Asks each member for its state, and the cluster for what only a majority can answer.
    async fn health(&self, settings: &Settings) -> Health {
        let (cluster, budget) = (&*self.engine, settings.budget());
        let end = Instant::now() + budget;
        let read = async {
            let before = cluster.largest.get();
            let keys = [cluster.keys.closed(), cluster.keys.base()].map(|key| Op::range(Range::one(key)));
            let read = Txn { success: keys.into(), ..Txn::default() };
            cluster.client.check_members(budget / 4).await.map_err(|failure| failure.fault)?;
            let read = cluster.client.ask(&read, budget).await.map_err(|failure| failure.fault)?;
            if let Some(closed) = read.read(0).first() {
                return Err(cluster.closed(closed, budget).await);
            }
            let base = read.read(1).first().map_or(Ok(0), |base| number(&base.value))?;
            let count = base.saturating_add_signed(read.header().revision);
            if count < before { Err(went_back(before, count)) } else { Ok(()) }
        };
        let members = cluster.client.members().map(async |(number, name)| {
            let cause = match cluster.client.ask_member(number, &Status {}, end, end).await {
                Err(failure) => failure.fault,
                Ok(status) if status.leader == 0 => Fault::Refused("it has no leader".into()),
                Ok(status) if !status.errors.is_empty() => Fault::Refused(status.errors.join(", ")),
                Ok(status) => {
                    if is_old(&status.version) && !cluster.warned.swap(true, Ordering::Relaxed) {
                        let version = status.version;
                        tracing::warn!(
                            name,
                            version,
                            "when a stopped leader resumes, this etcd may revoke a renewed lease: upgrade to 3.5.13 or later"
                        );
                    }
                    return None;
                }
            };
            Some(NodeCause { node: name.to_owned(), cause })
        });
        let members = futures_util::future::join_all(members);
        let (read, causes) = futures_util::future::join(read, members).await;
        let mut health = Health::of_one(causes.into_iter().flatten().collect());
        // One member of three may be down. An alarm for want of space is that of the cluster: it takes no writes.
        let is_full = |cause: &NodeCause| matches!(&cause.cause, Fault::Refused(text) if text.contains("NOSPACE"));
        health.granting = usize::from(read.is_ok() && !health.causes.iter().any(is_full));
        health.causes.extend(read.err().map(|fault| cluster.cause(fault)));
        health
    }
}

/// The locks of one lease, on the etcd lease of its session.
struct HeldInEtcd {
    session: Arc<EtcdSession>,
    claim: Arc<EtcdClaim>,
    terms: Terms,
}

impl HeldLock for HeldInEtcd {
    fn renew(&self, resumes: bool) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>> {
        Box::pin(async move {
            let renewed = match resumes {
                true => self.session.take_over(&self.claim, &self.terms).await,
                false => self.renew_here().await,
            };
            renewed.map_err(|fault| vec![self.session.cluster.cause(fault)])
        })
    }

    fn hand_out(&self) -> String {
        String::from_utf8_lossy(&self.claim.value).into_owned()
    }

    /// Where the answer is lost, or this is dropped, the next sweep releases.
    fn release(self: Arc<Self>, rest: Duration, _: bool) -> SentRelease {
        if self.session.state.lock().held.remove(&self.claim.owner.0).is_none() {
            return Box::pin(async { Ok(false) });
        }
        let held = Arc::clone(&self);
        let left = if rest.is_zero() { held.release_now() } else { held.release_after(rest) };
        Box::pin(async move { left.await.map_err(|fault| vec![self.session.cluster.cause(fault)]) })
    }

    /// The caller's clock is asked without a lock.
    fn attach_state(&self, state: &Arc<LeaseState>) {
        if !self.session.note(self.claim.owner, |held| held.lease = Arc::downgrade(state)) {
            state.close(Loss::Expired);
        }
    }
}

impl HeldInEtcd {
    async fn renew_here(&self) -> Result<Renewed, Fault> {
        let Some(answer) = self.session.renew(&self.claim) else { return Ok(Renewed::Superseded) };
        // A later answer is useless: the lease has ended by then.
        let start = answered(Instant::now() + self.terms.ttl, answer).await?;
        let Some(deadline) = start.map(|start| self.terms.deadline(start)) else { return Ok(Renewed::Superseded) };
        let until = deadline + self.terms.lock_delay;
        self.session.note(self.claim.owner, |held| held.until = held.until.max(until));
        Ok(Renewed::Until(deadline))
    }

    /// Deletes the locks. Returns whether all were still there.
    fn release_now(self: Arc<Self>) -> BoxFuture<'static, Result<bool, Fault>> {
        let doubt = in_doubt(&self.session, &self.claim);
        Box::pin(async move {
            let EtcdSession { cluster, budget, .. } = &*self.session;
            let (answer, _) = cluster.client.call(&self.claim.release(&cluster.keys), *budget, Repeat::Never).await?;
            // Where one of several is gone, the sweep deletes the others.
            if answer.succeeded {
                decided(doubt);
            }
            Ok(answer.succeeded)
        })
    }

    /// Keeps the locks closed for `rest`, under a new owner and on an etcd lease of their own. If this process dies,
    /// that etcd lease deletes them. Otherwise the session does, to the millisecond, even if no answer comes.
    fn release_after(self: Arc<Self>, rest: Duration) -> BoxFuture<'static, Result<bool, Fault>> {
        let (cluster, budget) = (Arc::clone(&self.session.cluster), self.session.budget);
        let kept = Arc::new(self.claim.kept(rest));
        self.session.keep_until(cluster.clock.now() + rest, &self.claim, &kept);
        let (counted, runtime) = (cluster.requests.token(), self.session.runtime.clone());
        let put = runtime.spawn(async move {
            let lease = cluster.grant(seconds(rest), budget).await?;
            // Never repeated: a second request would find the locks under another owner.
            let (put, _) = cluster.client.call(&self.claim.keep_closed(&kept, lease), budget, Repeat::Never).await?;
            if !put.succeeded {
                cluster.revoke(&self.session.runtime, lease, budget);
            }
            drop(counted);
            Ok(put.succeeded)
        });
        Box::pin(answered(Instant::now() + budget * 2, put))
    }
}

impl EtcdSession {
    async fn acquire(self: &Arc<Self>, claim: &Arc<EtcdClaim>, settings: &Settings) -> Result<Grant, EtcdRefusal> {
        let (cluster, terms) = (&self.cluster, settings.terms());
        let (start, before) = (cluster.clock.now(), cluster.largest.get());
        // An attempt in doubt never becomes a lease.
        let doubt = in_doubt(self, claim);
        let asked = self.guarded(claim.acquire(&cluster.keys, self.lease), settings.budget()).await;
        let granted = asked.and_then(|answer| {
            let (base, counted) = claim.outcome(&answer)?;
            Ok((base, answer.header().revision, counted))
        });
        let (base, revision, counted) = match granted {
            Ok(granted) => granted,
            Err(refusal) => {
                let may_be_granted = match &refusal {
                    // etcd carries out the transaction that exceeds its space, and then refuses it.
                    EtcdRefusal::Failed(EtcdFailure { fault: Fault::NotNow(why), in_doubt: false, .. })
                        if why.contains("space exceeded") =>
                    {
                        self.may_have(claim).await
                    }
                    EtcdRefusal::Failed(failure) => failure.in_doubt,
                    _ => false,
                };
                if !may_be_granted {
                    decided(doubt);
                }
                return Err(refusal);
            }
        };
        cluster.largest.take(before, base.saturating_add_signed(revision))?;
        let token = token(base, counted)?;
        let deadline = self.deadline(&terms, start);
        if cluster.clock.now() >= deadline {
            return Err(Fault::GrantedTooLate.into());
        }
        let until = (deadline + terms.lock_delay).max(start + settings.at_least);
        if !self.state.lock().hold(claim, until) {
            return Err(EtcdRefusal::Over);
        }
        // From now on the lease releases.
        decided(doubt);
        let locks = claim.locks.clone().map(|(resource, _)| Sequencer::new(resource, token));
        let (session, claim) = (Arc::clone(self), Arc::clone(claim));
        let held = Arc::new(HeldInEtcd { session, claim, terms });
        Ok(Grant { locks, asked: start, deadline, held })
    }

    async fn may_have(&self, claim: &EtcdClaim) -> bool {
        let (_, key) = claim.locks.first();
        let read = self.cluster.client.ask(&Range::one(key.clone()), self.budget).await;
        read.map_or(true, |lock| claim.is_in(&lock.kvs))
    }

    /// Moves the lock of a lease that several processes have to this session, if it is still that of its owner. Each
    /// renewal does so. A move that comes late changes nothing if another process has moved the lock before it, or this
    /// session has swept it.
    async fn take_over(self: &Arc<Self>, claim: &Arc<EtcdClaim>, terms: &Terms) -> Result<Renewed, Fault> {
        let (cluster, end) = (&self.cluster, Instant::now() + self.budget);
        let (_, key) = claim.locks.first();
        while Instant::now() < end && !self.has_ended() {
            let read = cluster.client.ask(&Range::one(key.clone()), self.budget).await?.kvs;
            let Some(lock) = read.first().filter(|_| claim.is_in(&read)) else {
                return Ok(Renewed::Superseded);
            };
            // After the read: a process that moved it before must not count on it for longer than this session does.
            let start = cluster.clock.now();
            let deadline = self.deadline(terms, start);
            if deadline < terms.deadline(start) {
                // The session must be renewed first, or the lock may end before the other process's deadline.
                self.work.notify_one();
                sleep(PAUSE).await;
                continue;
            }
            // Even if the answer is lost, the session deletes the lock then, unless another process has moved it.
            if !self.state.lock().hold(claim, deadline + terms.lock_delay) {
                break;
            }
            match self.guarded(claim.move_to(self.lease, lock), self.budget).await {
                Ok(answer) if answer.succeeded => return Ok(Renewed::Until(deadline)),
                // Another process has renewed it, or released it.
                Ok(_) | Err(EtcdRefusal::Moved) => {}
                Err(refusal) => return Err(refusal.into()),
            }
        }
        Err(Fault::TimedOut)
    }
}

/// Returns whether a leader of this version that was stopped may revoke an etcd lease that others have renewed.
fn is_old(version: &str) -> bool {
    let parts = version.split('.').map(|part| part.parse().unwrap_or(u32::MAX));
    parts.collect::<Vec<u32>>().as_slice() < [3, 5, 13].as_slice()
}

#[cfg(test)]
mod tests {
    use super::is_old;

    #[test]
    fn versions_are_told_apart() {
        for (version, old) in [("3.4.23", true), ("3.5.12", true), ("3.5.13", false), ("3.6.0-rc", false)] {
            assert_eq!(is_old(version), old, "{version}");
        }
    }
}
