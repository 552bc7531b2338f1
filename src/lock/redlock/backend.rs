use std::iter::from_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencing_protocol::{
    Acquire, Attempt, CROWDED, Fault, Lost, Machine, Mode, NonEmpty, Owner, Release, Released, Renew, Renewed, Reply,
    Request, Resource, Stamp, Terms, Token, Won, fault_of, majority,
};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use scopeguard::{ScopeGuard, guard};
use tokio::time::Instant;

use super::nodes::Nodes;
use super::readmission;
use crate::holder::Holder;
use crate::lock::backend::{
    AcquireError, Ask, Grant, Health, HeldLock, LeaseTicket, LockBackend, NodeCause, SentRelease, Settings, draining,
};
use crate::lock::service::health::NodeHealth;
use crate::random;
use crate::sequencer::Sequencer;

impl LockBackend for Arc<Nodes> {
    /// If this is dropped at any await point, or the attempt is lost, it releases on all nodes. If others share a lock
    /// that is requested exclusively, no client joins them until the next attempt. A failure because this client itself
    /// was too slow says nothing about the nodes: it tries again under a new owner, with a permit, within the wait limit.
    async fn attempt(&self, wanted: &NonEmpty<Resource>, ask: Ask, settings: &Settings) -> Result<Grant, AcquireError> {
        readmission::start(self);
        let (first, terms) = (wanted.first(), settings.terms());
        let (now, budget) = (Instant::now(), settings.budget());
        // As long as one attempt takes at least: an attempt that was not sent in time asks once more.
        let end = ask.end.max(now + budget * 4).min(now + terms.ttl / 2);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Some(_permit) = self.permit(left).await else {
                return Err(AcquireError::Overloaded { resource: first.clone() });
            };
            let begin = Instant::now();
            let asked = try_once(self, wanted, ask.mode, terms).await;
            let faults = if let Err(Lost::NoQuorum { faults, .. }) = &asked { faults.as_slice() } else { &[] };
            let late = self.was_late(begin, faults);
            self.adapt_permits(late);
            match asked {
                Ok(grant) => return Ok(grant),
                Err(Lost::Held { resource, retry_after, shared, holder }) => {
                    if shared && ask.drains {
                        let lasting = draining(settings, budget * 2, ask.end);
                        let drain = Request::Drain { resource: resource.clone(), lasting };
                        drop(self.submit_all(&drain));
                    }
                    let holder = holder.and_then(|holder| Holder::read(&holder));
                    return Err(AcquireError::Held { resource, retry_after, holder });
                }
                Err(Lost::NoQuorum { .. }) if late && Instant::now() < end => {
                    tracing::debug!(resource = %first, "this client was late itself: asking again");
                }
                Err(Lost::NoQuorum { granted: 0, faults })
                    if !faults.is_empty() && faults.iter().all(|(_, it)| it.is_own()) =>
                {
                    return Err(AcquireError::Overloaded { resource: first.clone() });
                }
                Err(Lost::NoQuorum { granted, faults }) => {
                    let (resource, nodes) = (first.clone(), self.size());
                    let (needed, causes) = (majority(nodes), self.causes(faults));
                    return Err(AcquireError::NoQuorum { resource, nodes, needed, granted, causes });
                }
            }
        }
    }

    async fn resumed(&self, ticket: &LeaseTicket, settings: &Settings) -> Result<Option<Arc<dyn HeldLock>>, NodeCause> {
        readmission::start(self);
        let Some(owner) = Owner::parse(&ticket.owner) else { return Ok(None) };
        let (mode, terms) = (Mode::Exclusive, settings.terms());
        let Sequencer { resource, token } = ticket.sequencer.clone();
        let attempt = Attempt { owner, mode, terms };
        Ok(Some(Arc::new(HeldOnNodes::new(Arc::clone(self), attempt, NonEmpty::new((resource, token))))))
    }

    async fn health(&self, _: &Settings) -> Health {
        readmission::start(self);
        let (mut nodes, mut faults) = (Vec::new(), Vec::new());
        for (node, answer) in self.submit_all(&Request::Inspect).all().await {
            match answer {
                Ok(Reply::Report { state, quarantine, counts }) => {
                    self.is_back(node);
                    faults.extend(quarantine.map(|left| (node, Fault::Quarantined(left))));
                    nodes.push(NodeHealth {
                        node: self.name(node).to_owned(),
                        era: state.era,
                        longest: state.longest,
                        quarantine,
                        counts,
                        crowded: counts >= CROWDED as u64,
                    });
                }
                other => faults.push((node, fault_of(other))),
            }
        }
        Health {
            needed: majority(self.size()),
            granting: self.size() - faults.len(),
            causes: self.causes(faults),
            fleet: self.context.fleet.members().map(str::to_owned).collect(),
            nodes,
        }
    }

    fn prepare(&self, settings: &Settings) {
        self.raise_longest(settings.terms().closed_for());
    }
}

async fn try_once(nodes: &Arc<Nodes>, resources: &NonEmpty<Resource>, mode: Mode, terms: Terms) -> Result<Grant, Lost> {
    let attempt = Attempt { owner: Owner(random::timestamped()), mode, terms };
    let asked = nodes.clock.now();
    let acquire = Acquire::new(nodes.size(), attempt, resources.clone(), asked);
    // Dropped before it is won, it releases the locks on the nodes, also on those that did not answer.
    let mut acquire = guard(acquire, |acquire| drop(nodes.submit_each(acquire.releases())));
    let answers = nodes.begin(&mut *acquire);
    let outcome = nodes.drive(&mut *acquire, answers).await;
    let unanswered = Lost::NoQuorum { granted: 0, faults: Vec::new() };
    let Won { locks, deadline } = outcome.unwrap_or(Err(unanswered))?;
    drop(ScopeGuard::into_inner(acquire));
    let held = Arc::new(HeldOnNodes::new(Arc::clone(nodes), attempt, locks.clone()));
    let locks = locks.map(|(resource, token)| Sequencer::new(resource, token));
    Ok(Grant { locks, asked, deadline, held })
}

/// Locks of one lease that are held on the nodes.
struct HeldOnNodes {
    nodes: Arc<Nodes>,
    attempt: Attempt,
    locks: NonEmpty<(Resource, Token)>,
    /// Set before the release is submitted: a renewal after it could lock again.
    closed: Mutex<bool>,
    /// Whether other processes may renew it.
    has_ticket: AtomicBool,
}

impl HeldOnNodes {
    fn new(nodes: Arc<Nodes>, attempt: Attempt, locks: NonEmpty<(Resource, Token)>) -> HeldOnNodes {
        HeldOnNodes { nodes, attempt, locks, closed: Mutex::new(false), has_ticket: AtomicBool::new(false) }
    }

    /// Renews where a majority has the lock still. A node that has lost it gets it again, unless a release has reached
    /// that node.
    async fn resume(&self) -> Result<Renewed, Vec<NodeCause>> {
        let (nodes, now) = (&self.nodes, self.nodes.clock.now());
        let mut resume = Renew::resuming(nodes.size(), self.attempt, &self.locks, now);
        let answers = nodes.begin(&mut resume);
        let renewed = nodes.drive(&mut resume, answers).await.unwrap_or(Err(Vec::new()));
        let missing: Vec<usize> = resume.missing().collect();
        // At the last count of an era a release leaves no trace on a node: then no missing lock is set again.
        let heals = self.locks.iter().all(|(_, token)| Stamp::from(*token).count < Stamp::MAX_COUNT);
        if matches!(renewed, Ok(Renewed::Until(_))) && heals && !missing.is_empty() {
            let mut renew = Renew::new(nodes.size(), self.attempt, &self.locks, now);
            let requests = from_fn(|| renew.next_request()).filter(|(to, _)| missing.contains(&to.node));
            let mut answers = nodes.answers();
            let closed = self.closed.lock();
            if !*closed {
                nodes.submit(requests, &mut answers);
            }
        }
        renewed.map_err(|faults| nodes.causes(faults))
    }
}

impl HeldLock for HeldOnNodes {
    fn renew(&self, resumes: bool) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>> {
        if resumes {
            return Box::pin(self.resume());
        }
        Box::pin(async {
            let now = self.nodes.clock.now();
            let mut renew = Renew::new(self.nodes.size(), self.attempt, &self.locks, now);
            // Before `closed` is locked: this reads the clock, which may be the caller's code and release this lease.
            let mut answers = self.nodes.answers();
            {
                let closed = self.closed.lock();
                if *closed {
                    return Err(Vec::new());
                }
                self.nodes.submit(from_fn(|| renew.next_request()), &mut answers);
            }
            let renewed = self.nodes.drive(&mut renew, answers).await;
            renewed.unwrap_or(Err(Vec::new())).map_err(|faults| self.nodes.causes(faults))
        })
    }

    fn hand_out(&self) -> String {
        self.has_ticket.store(true, Ordering::Relaxed);
        self.attempt.owner.to_string()
    }

    fn release(self: Arc<Self>, rest: Duration, handed_over: bool) -> SentRelease {
        *self.closed.lock() = true;
        let (owner, has_ticket) = (self.attempt.owner, self.has_ticket.load(Ordering::Relaxed));
        // A lock that is shortened to nothing is gone, and no node notifies of it.
        let notifies = rest.is_zero() && !handed_over;
        let of_all = |request: &dyn Fn(Resource, Token) -> Request| {
            let requests = self.locks.iter().cloned().map(|(resource, token)| request(resource, token)).collect();
            Release::new(self.nodes.size(), Request::together(requests))
        };
        let retire = |resource, token| Request::Retire { resource, owner, token };
        let mut release = of_all(&|resource, token| match (notifies, has_ticket) {
            (false, _) => Request::Shorten { resource, owner, rest },
            (true, true) => retire(resource, token),
            (true, false) => Request::Release { resource, owner },
        });
        let answers = self.nodes.begin(&mut release);
        if has_ticket && !notifies {
            // A late renewal by ticket would set the lock again on a node that had lost it.
            drop(self.nodes.begin(&mut of_all(&retire)));
        }
        Box::pin(async move {
            let released = self.nodes.drive(&mut release, answers).await.unwrap_or(Err(Vec::new()));
            released.map(|it| it == Released::Released).map_err(|faults| self.nodes.causes(faults))
        })
    }

    /// Each lane keeps the order.
    fn releases_in_order(&self) -> bool {
        true
    }
}
