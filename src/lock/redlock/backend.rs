use std::sync::Arc;

use fencing_protocol::{
    Acquire, Attempt, CROWDED, Fault, Lost, Mode, NonEmpty, Owner, Reply, Request, Resource, Terms, Won, fault_of,
    majority,
};
use scopeguard::{ScopeGuard, guard};
use tokio::time::Instant;

use super::held::HeldOnNodes;
use super::nodes::Nodes;
use super::readmission;
use crate::holder::Holder;
use crate::lock::service::backend::{
    AcquireError, Ask, Grant, Health, HeldLock, LeaseTicket, LockBackend, NodeCause, Settings, draining,
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
            match asked {
                Ok(grant) => return Ok(grant),
                Err(Lost::Held { part, retry_after, shared, holder }) => {
                    let resource = wanted.get(part).unwrap_or(first).clone();
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

    async fn held(&self, ticket: &LeaseTicket, settings: &Settings) -> Result<Option<Arc<dyn HeldLock>>, NodeCause> {
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
        for (node, answer) in self.ask_all(&Request::Inspect).await {
            match answer {
                Ok(Reply::Report { state, quarantine, counts }) => {
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
    let attempt = Attempt { owner: Owner(random::stamped()), mode, terms };
    let acquire = Acquire::new(nodes.size(), attempt, resources.clone(), nodes.clock.now());
    // Dropped before it is won, it releases the locks on the nodes, also on those that did not answer.
    let mut acquire = guard(acquire, |acquire| drop(nodes.submit_each(acquire.releases())));
    let answers = nodes.begin(&mut *acquire);
    let outcome = nodes.drive(&mut *acquire, answers).await;
    let unanswered = Lost::NoQuorum { granted: 0, faults: Vec::new() };
    let Won { locks, deadline } = outcome.unwrap_or(Err(unanswered))?;
    drop(ScopeGuard::into_inner(acquire));
    let held = Arc::new(HeldOnNodes::new(Arc::clone(nodes), attempt, locks.clone()));
    let locks = locks.map(|(resource, token)| Sequencer::new(resource, token));
    Ok(Grant { locks, deadline, held })
}
