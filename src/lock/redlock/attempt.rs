use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{
    Acquire, AcquireOutcome, Attempt, Fault, Mode, Owner, Request, Resource, Terms,
};
use tokio::time::Instant;

use super::answers::Answers;
use super::held::HeldOnNodes;
use super::nodes::Nodes;
use super::readmission;
use super::seen::SeenHolders;
use crate::lock::held_lock::Grant;
use crate::lock::wait::backoff::Drains;
use crate::lock::{AcquireError, Holder};
use crate::random;

/// The longest that an attempt waits for its turn.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Makes one attempt. Dropped at any await point, or lost, it releases everywhere. Where others share the
/// lock that it asks for alone, nobody joins them for as long as it `drains`.
///
/// An attempt that failed because this client itself was too slow says nothing of the nodes: it waits for
/// another turn and asks anew, for another owner, within the time in which it may wait.
pub(super) async fn attempt(
    nodes: &Arc<Nodes>,
    resource: &Resource,
    (mode, drains): (Mode, Option<Drains>),
    terms: Terms,
) -> Result<Grant, AcquireError> {
    readmission::start(nodes);
    let end = Instant::now() + LONGEST_WAIT.min(terms.ttl / 2);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let Some(_turn) = nodes.turn(left).await else {
            return Err(AcquireError::Overloaded { resource: resource.clone() });
        };
        let begin = Instant::now();
        let asked = ask(nodes, resource, mode, terms).await;
        let late = match &asked {
            Err((AcquireOutcome::NoQuorum { faults, .. }, _)) => was_late(nodes, begin, faults),
            _ => false,
        };
        nodes.was_late(late);
        match asked {
            Ok(grant) => return Ok(grant),
            Err((AcquireOutcome::Held { retry_after, shared }, holder)) => {
                if let Some(lasting) = drains.filter(|_| shared).map(|it| it.lasting()) {
                    let drain = Request::Drain { resource: resource.clone(), lasting };
                    drop(nodes.submit_all(&drain));
                }
                return Err(AcquireError::Held { resource: resource.clone(), retry_after, holder });
            }
            Err((AcquireOutcome::NoQuorum { .. }, _)) if late && Instant::now() < end => {
                tracing::debug!(%resource, "this client was late itself: asking anew");
            }
            Err((AcquireOutcome::NoQuorum { granted: 0, faults }, _))
                if !faults.is_empty() && faults.iter().all(|(_, it)| it.is_own()) =>
            {
                return Err(AcquireError::Overloaded { resource: resource.clone() });
            }
            Err((AcquireOutcome::NoQuorum { granted, faults }, _)) => {
                return Err(nodes.no_quorum(resource, granted, faults));
            }
            Err((AcquireOutcome::Won { .. }, _)) => {}
        }
    }
}

/// Reports whether a node was not asked in time, or not heard in time, because of this client: then this
/// client may be to blame for the other faults, too. Requests that were refused before a budget has passed do not
/// count: they would be refused again.
pub(super) fn was_late(nodes: &Nodes, begin: Instant, faults: &[(usize, Fault)]) -> bool {
    begin.elapsed() >= nodes.budget() && faults.iter().any(|(_, it)| it.is_own())
}

/// Asks the nodes once. Says also who holds the lock, if the nodes have said that.
async fn ask(
    nodes: &Arc<Nodes>,
    resource: &Resource,
    mode: Mode,
    terms: Terms,
) -> Result<Grant, (AcquireOutcome, Option<Holder>)> {
    let owner = Owner(random::stamped());
    let attempt = Attempt { resource: resource.clone(), owner, mode, terms };
    let acquire = Acquire::new(nodes.size(), attempt.clone(), nodes.clock().now());
    let mut asked = ReleaseOnDrop { nodes: Some(nodes), resource, owner, acquire };
    let mut answers = Answers::of_votes(nodes.size(), nodes.clock());
    let mut seen = SeenHolders::new(1);
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
            None => break AcquireOutcome::NoQuorum { granted: 0, faults: Vec::new() },
        }
    };
    match outcome {
        AcquireOutcome::Won { token, deadline } => {
            asked.nodes = None;
            let held = Arc::new(HeldOnNodes::new(Arc::clone(nodes), attempt, token));
            Ok(Grant { token, deadline, held })
        }
        lost => Err((lost, seen.most(0))),
    }
}

/// Releases the lock on the nodes when it is dropped, also on nodes that did not answer.
struct ReleaseOnDrop<'a> {
    nodes: Option<&'a Arc<Nodes>>,
    resource: &'a Resource,
    owner: Owner,
    acquire: Acquire,
}

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(nodes) = self.nodes {
            let request = Request::Release { resource: self.resource.clone(), owner: self.owner };
            let mut answers = Answers::new(nodes.size(), nodes.clock());
            // If a node has answered that another owner holds the lock, it has nothing of this owner.
            nodes.submit_to(&request, &mut answers, |node| !self.acquire.is_refused(node));
        }
    }
}
