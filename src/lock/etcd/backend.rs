use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fencing_protocol::{Fault, Mode, NonEmpty, Resource};
use tokio::time::Instant;

use super::claim::{EtcdClaim, EtcdRefusal, FoundHolder, MAX_LOCKS};
use super::held::HeldInEtcd;
use super::messages::{EtcdAnswer, Range, Status};
use super::session::{EtcdSession, decided, in_doubt};
use super::sessions::EtcdSessions;
use crate::holder::HolderName;
use crate::lock::service::backend::{
    AcquireError, Ask, Grant, Health, HeldLock, LeaseTicket, LockBackend, NodeCause, Settings, draining,
};
use crate::lock::token_base::token;
use crate::sequencer::Sequencer;

/// Leases in an etcd cluster.
#[derive(derive_more::Debug)]
#[debug("{sessions:?}")]
pub struct EtcdBackend {
    pub(super) sessions: Arc<EtcdSessions>,
    pub(super) holder: HolderName,
    /// Whether an old version was reported.
    pub(super) warned: AtomicBool,
}

impl LockBackend for Arc<EtcdBackend> {
    /// Requests all of them in one transaction. If this is dropped at any await point, or gets no answer, the session
    /// releases what it may have been granted.
    async fn attempt(&self, wanted: &NonEmpty<Resource>, ask: Ask, settings: &Settings) -> Result<Grant, AcquireError> {
        let (first, count) = (wanted.first(), wanted.len());
        if count > MAX_LOCKS {
            return Err(AcquireError::WrongCount { count, most: MAX_LOCKS });
        }
        let (terms, budget) = (settings.terms(), settings.budget());
        let (keys, end) = (&self.sessions.cluster.keys, Instant::now() + budget * 2);
        let claim = Arc::new(EtcdClaim::new(keys, wanted, ask.mode, &self.holder, terms.closed_for()));
        let unavailable = |fault| AcquireError::unavailable(first, self.sessions.cluster.cause(fault));
        loop {
            let session = self.sessions.get(settings, end).await;
            let session = session.map_err(unavailable)?;
            // What this process has released goes first.
            session.clear(&claim, end.min(Instant::now() + budget / 2)).await;
            match session.acquire(&claim, settings).await {
                Ok(grant) => return Ok(grant),
                Err(EtcdRefusal::Moved | EtcdRefusal::Over) if Instant::now() < end => {}
                Err(EtcdRefusal::Moved | EtcdRefusal::Over) => return Err(unavailable(Fault::TimedOut)),
                Err(EtcdRefusal::Failed(failure)) => return Err(unavailable(failure.fault)),
                Err(EtcdRefusal::Held(FoundHolder { resource, holder, shared, left })) => {
                    if shared && ask.mode == Mode::Exclusive && ask.drains {
                        session.drain(&resource, draining(settings, budget / 2, ask.end));
                    }
                    // The lock does not say yet that this process has released it early.
                    let retry_after = session.held_for(&resource).map_or(left, |known| left.min(known));
                    return Err(AcquireError::Held { resource, retry_after, holder });
                }
            }
        }
    }

    async fn held(&self, ticket: &LeaseTicket, settings: &Settings) -> Result<Option<Arc<dyn HeldLock>>, NodeCause> {
        let EtcdSessions { cluster, .. } = &*self.sessions;
        let Some(claim) = EtcdClaim::of(&cluster.keys, ticket) else { return Ok(None) };
        let session = self.sessions.get(settings, Instant::now() + settings.budget() * 2).await;
        let (session, claim) = (session.map_err(|fault| cluster.cause(fault))?, Arc::new(claim));
        Ok(Some(Arc::new(HeldInEtcd { session, claim, terms: settings.terms() })))
    }

    /// Asks each member for its state, and the cluster for what only a majority can answer.
    async fn health(&self, settings: &Settings) -> Health {
        let (cluster, budget) = (&self.sessions.cluster, settings.budget());
        let end = Instant::now() + budget;
        let read = async {
            let closed = cluster.client.ask(&Range::one(cluster.keys.closed()), budget).await;
            match closed.map_err(|failure| failure.fault)?.kvs.first() {
                Some(closed) => Err(cluster.closed(closed, budget).await),
                None => Ok(()),
            }
        };
        let members = cluster.client.members().map(async |(number, name)| {
            let cause = match cluster.client.ask_member(number, &Status {}, (end, end)).await {
                Err(failure) => failure.fault,
                Ok(status) if status.leader == 0 => Fault::Refused("it has no leader".into()),
                Ok(status) if !status.errors.is_empty() => Fault::Refused(status.errors.join(", ")),
                Ok(status) => {
                    if is_old(&status.version) && !self.warned.swap(true, Ordering::Relaxed) {
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
                let may_be_granted = matches!(&refusal, EtcdRefusal::Failed(failure) if failure.in_doubt);
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
        if !self.state.lock().hold(claim, Some(self.lease), until) {
            return Err(EtcdRefusal::Over);
        }
        // From now on the lease releases.
        decided(doubt);
        let locks = claim.locks.clone().map(|(resource, _)| Sequencer::new(resource, token));
        let (session, claim) = (Arc::clone(self), Arc::clone(claim));
        let held = Arc::new(HeldInEtcd { session, claim, terms });
        Ok(Grant { locks, deadline, held })
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
