use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{
    Acquire, Attempt, CROWDED, Fault, Lost, Mode, NonEmpty, Owner, Reply, Request, Resource, Terms,
    Won, fault_of, majority,
};
use tokio::time::Instant;

use super::answers::Answers;
use super::held::HeldOnNodes;
use super::nodes::Nodes;
use super::readmission;
use crate::holder::Holder;
use crate::lock::error::AcquireError;
use crate::lock::lease::held_lock::Grant;
use crate::lock::service::backend::{Ask, LockBackend};
use crate::lock::service::health::{Health, NodeHealth};
use crate::lock::settings::Settings;
use crate::lock::wait::backoff::draining;
use crate::lock::wait::release_notifications::ReleaseNotifications;
use crate::random;
use crate::sequencer::Sequencer;
use crate::time::Clock;

/// The longest that an attempt waits until it may ask the nodes.
const MAX_WAIT: Duration = Duration::from_secs(30);

impl LockBackend for Arc<Nodes> {
    fn clock(&self) -> &Arc<dyn Clock> {
        Nodes::clock(self)
    }

    /// Dropped at any await point, or lost, it releases everywhere. Where others share the lock that it asks for alone,
    /// no client joins them until it asks again.
    ///
    /// An attempt that failed because this client itself was too slow says nothing of the nodes: it asks
    /// again when it may, for another owner, within the time in which it may wait.
    async fn attempt(
        &self,
        resources: &NonEmpty<Resource>,
        Ask { mode, waits }: Ask,
        settings: &Settings,
    ) -> Result<Grant, AcquireError> {
        readmission::start(self);
        let (first, terms) = (resources.first(), settings.terms());
        let end = Instant::now() + MAX_WAIT.min(terms.ttl / 2);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Some(_permit) = self.permit(left).await else {
                return Err(AcquireError::Overloaded { resource: first.clone() });
            };
            let begin = Instant::now();
            let asked = ask(self, resources, mode, terms).await;
            let late = match &asked {
                Err((Lost::NoQuorum { faults, .. }, _)) => was_late(self, begin, faults),
                _ => false,
            };
            self.was_late(late);
            match asked {
                Ok(grant) => return Ok(grant),
                Err((Lost::Held { part, retry_after, shared }, holder)) => {
                    let resource = resources.get(part).unwrap_or(first).clone();
                    if let Some(end) = waits.filter(|_| shared) {
                        let lasting = draining(settings, settings.budget() * 2, end);
                        let drain = Request::Drain { resource: resource.clone(), lasting };
                        drop(self.submit_all(&drain));
                    }
                    return Err(AcquireError::Held { resource, retry_after, holder });
                }
                Err((Lost::NoQuorum { .. }, _)) if late && Instant::now() < end => {
                    tracing::debug!(resource = %first, "this client was late itself: asking again");
                }
                Err((Lost::NoQuorum { granted: 0, faults }, _))
                    if !faults.is_empty() && faults.iter().all(|(_, it)| it.is_own()) =>
                {
                    return Err(AcquireError::Overloaded { resource: first.clone() });
                }
                Err((Lost::NoQuorum { granted, faults }, _)) => {
                    return Err(self.no_quorum(first, granted, faults));
                }
            }
        }
    }

    fn notifications(&self) -> &ReleaseNotifications {
        &self.context.notifications
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
        Health { nodes, ..self.health_with(faults) }
    }

    fn failing(&self, fault: Fault) -> Health {
        self.health_with(self.each(fault))
    }

    fn unavailable(&self, resource: &Resource, fault: Fault) -> AcquireError {
        self.no_quorum(resource, 0, self.each(fault))
    }

    fn prepare(&self, settings: &Settings) {
        self.raise_longest(settings.terms().closed_for());
    }

    async fn settle(&self) {
        self.context.outstanding.wait().await;
    }
}

impl Nodes {
    pub(super) fn no_quorum(
        &self,
        resource: &Resource,
        granted: usize,
        faults: Vec<(usize, Fault)>,
    ) -> AcquireError {
        let (resource, nodes) = (resource.clone(), self.size());
        let (needed, causes) = (majority(nodes), self.causes(faults));
        AcquireError::NoQuorum { resource, nodes, needed, granted, causes }
    }

    fn each(&self, fault: Fault) -> Vec<(usize, Fault)> {
        (0..self.size()).map(|node| (node, fault.clone())).collect()
    }

    fn health_with(&self, faults: Vec<(usize, Fault)>) -> Health {
        Health {
            needed: majority(self.size()),
            granting: self.size() - faults.len(),
            causes: self.causes(faults),
            fleet: self.context.fleet.members().map(str::to_owned).collect(),
            nodes: Vec::new(),
        }
    }
}

/// Reports whether a node was not asked in time, or its answer not read in time, because of this client: then this
/// client may be to blame for the other faults, too. Requests that were refused before a budget has passed do not
/// count: they would be refused again.
fn was_late(nodes: &Nodes, begin: Instant, faults: &[(usize, Fault)]) -> bool {
    begin.elapsed() >= nodes.context.budget && faults.iter().any(|(_, it)| it.is_own())
}

/// Asks the nodes once. Says also who holds the lock, if the nodes have said that.
async fn ask(
    nodes: &Arc<Nodes>,
    resources: &NonEmpty<Resource>,
    mode: Mode,
    terms: Terms,
) -> Result<Grant, (Lost, Option<Holder>)> {
    let owner = Owner(random::stamped());
    let attempts = resources.clone().map(|resource| Attempt { resource, owner, mode, terms });
    let acquire = Acquire::new(nodes.size(), attempts, nodes.clock().now());
    let mut asked = UndecidedAttempt { nodes: Some(nodes), resources, owner, acquire };
    let mut answers = Answers::of_votes(nodes.size(), nodes.clock());
    let mut seen = SeenHolders(vec![Vec::new(); resources.len()]);
    let outcome = loop {
        while let Some((node, request)) = asked.acquire.next_request() {
            nodes.submit(node, request, &mut answers);
        }
        if let Some(outcome) = asked.acquire.outcome(nodes.clock().now()) {
            break outcome;
        }
        match answers.next().await {
            Some((node, reply)) => {
                seen.note(&reply);
                asked.acquire.on_reply(node, reply);
            }
            None => break Err(Lost::NoQuorum { granted: 0, faults: Vec::new() }),
        }
    };
    match outcome {
        Ok(Won { locks, deadline }) => {
            asked.nodes = None;
            let held = Arc::new(HeldOnNodes::new(Arc::clone(nodes), locks.clone()));
            let locks = locks.map(|(attempt, token)| Sequencer::new(attempt.resource, token));
            Ok(Grant { locks, deadline, held })
        }
        Err(lost) => {
            let holder = match lost {
                Lost::Held { part, .. } => seen.most_named(part),
                Lost::NoQuorum { .. } => None,
            };
            Err((lost, holder))
        }
    }
}

/// An attempt that is not won. Dropped, it releases the locks on the nodes, also on those that did not answer.
struct UndecidedAttempt<'a> {
    nodes: Option<&'a Arc<Nodes>>,
    resources: &'a NonEmpty<Resource>,
    owner: Owner,
    acquire: Acquire,
}

impl Drop for UndecidedAttempt<'_> {
    fn drop(&mut self) {
        if let Some(nodes) = self.nodes {
            let owner = self.owner;
            let resources = self.resources.clone();
            let release = resources.map(|resource| Request::Release { resource, owner });
            let request = Request::together(release.into());
            let mut answers = Answers::new(nodes.size(), nodes.clock());
            // If a node has answered that another owner holds the lock, it has nothing of this owner.
            nodes.submit_to(&request, &mut answers, |node| !self.acquire.is_refused(node));
        }
    }
}

/// The holders that the nodes have named: for each lock that was asked for, with the number of nodes.
struct SeenHolders(Vec<Vec<(Arc<str>, usize)>>);

impl SeenHolders {
    fn note(&mut self, reply: &Result<Reply, Fault>) {
        for (seen, part) in self.0.iter_mut().zip(reply.iter().flat_map(Reply::parts)) {
            let Reply::Held { holder: Some(holder), .. } = part else { continue };
            match seen.iter_mut().find(|(other, _)| other == holder) {
                Some((_, nodes)) => *nodes += 1,
                None => seen.push((Arc::clone(holder), 1)),
            }
        }
    }

    /// Returns the holder that most nodes have named.
    fn most_named(&self, lock: usize) -> Option<Holder> {
        let (holder, _) = self.0.get(lock)?.iter().max_by_key(|(_, nodes)| *nodes)?;
        Holder::read(holder)
    }
}
