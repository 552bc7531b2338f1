use std::sync::Arc;

use fencing_protocol::{AcquireAll, AcquireAllOutcome, Attempt, Mode, Owner, Resource, Terms};
use tokio::time::Instant;

use super::answers::Answers;
use super::attempt::{LONGEST_WAIT, was_late};
use super::held_all::HeldAllOnNodes;
use super::nodes::Nodes;
use super::readmission;
use super::seen::SeenHolders;
use crate::lock::AcquireError;
use crate::lock::held_lock::GrantAll;
use crate::random;

/// Makes one attempt to acquire all of them. Dropped at any await point, or lost, it releases all of
/// them everywhere. If this client itself was too slow, it asks anew as [`attempt`](super::attempt::attempt) does.
pub(super) async fn attempt_all(
    nodes: &Arc<Nodes>,
    resources: &[Resource],
    terms: Terms,
) -> Result<GrantAll, AcquireError> {
    let Some(first) = resources.first() else { return Err(AcquireError::of_count(0)) };
    readmission::start(nodes);
    let end = Instant::now() + LONGEST_WAIT.min(terms.ttl / 2);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let Some(_turn) = nodes.turn(left).await else {
            return Err(AcquireError::Overloaded { resource: first.clone() });
        };
        let begin = Instant::now();
        let asked = ask(nodes, resources, terms).await;
        let late = match &asked {
            Err((AcquireAllOutcome::NoQuorum { faults, .. }, _)) => was_late(nodes, begin, faults),
            _ => false,
        };
        nodes.was_late(late);
        match asked {
            Ok(grant) => return Ok(grant),
            Err((AcquireAllOutcome::Held { part, retry_after }, seen)) => {
                let resource = resources.get(part).unwrap_or(first).clone();
                return Err(AcquireError::Held { resource, retry_after, holder: seen.most(part) });
            }
            Err((AcquireAllOutcome::NoQuorum { .. }, _)) if late && Instant::now() < end => {
                tracing::debug!(resource = %first, "this client was late itself: asking anew");
            }
            Err((AcquireAllOutcome::NoQuorum { granted: 0, faults }, _))
                if !faults.is_empty() && faults.iter().all(|(_, it)| it.is_own()) =>
            {
                return Err(AcquireError::Overloaded { resource: first.clone() });
            }
            Err((AcquireAllOutcome::NoQuorum { granted, faults }, _)) => {
                return Err(nodes.no_quorum(first, granted, faults));
            }
            Err((AcquireAllOutcome::Won { .. }, _)) => {}
        }
    }
}

/// Asks the nodes once. Says also who holds the locks, if the nodes have said that.
async fn ask(
    nodes: &Arc<Nodes>,
    resources: &[Resource],
    terms: Terms,
) -> Result<GrantAll, (AcquireAllOutcome, SeenHolders)> {
    let owner = Owner(random::stamped());
    let mode = Mode::Exclusive;
    let attempt = |resource: &Resource| Attempt { resource: resource.clone(), owner, mode, terms };
    let attempts: Vec<Attempt> = resources.iter().map(attempt).collect();
    let mut acquire = AcquireAll::new(nodes.size(), attempts.clone(), nodes.clock().now());
    let held = HeldAllOnNodes::new(Arc::clone(nodes), attempts);
    let mut answers = Answers::of_votes(nodes.size(), nodes.clock());
    let mut seen = SeenHolders::new(resources.len());
    let outcome = loop {
        while let Some((node, request)) = acquire.next_request() {
            nodes.submit(node, request, &mut answers);
        }
        if let Some(outcome) = acquire.outcome(nodes.clock().now()) {
            break outcome;
        }
        match answers.next().await {
            Some((node, reply)) => {
                seen.note(&reply);
                acquire.on_reply(node, reply);
            }
            None => break AcquireAllOutcome::NoQuorum { granted: 0, faults: Vec::new() },
        }
    };
    match outcome {
        AcquireAllOutcome::Won { tokens, deadline } => {
            let held = Arc::new(held.with(&tokens));
            Ok(GrantAll { tokens, deadline, held })
        }
        lost => Err((lost, seen)),
    }
}
