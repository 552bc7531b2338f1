use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::held::HeldOnNodes;
use super::nodes::Nodes;
use super::readmission;
use crate::lock::AcquireError;
use crate::lock::held_lock::Grant;
use crate::protocol::{Acquire, AcquireOutcome, Attempt, Fault, Mode, Owner, Request, Terms};
use crate::random;
use crate::resource::Resource;

/// The longest that an attempt waits for its turn.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Makes one attempt. Dropped at any await point, or lost, it releases everywhere. Where others share the
/// lock that it asks for alone, nobody joins them for as long as it `drains`.
pub(super) async fn attempt(
    nodes: &Arc<Nodes>,
    resource: &Resource,
    (mode, drains): (Mode, Option<Duration>),
    terms: Terms,
) -> Result<Grant, AcquireError> {
    readmission::start(nodes);
    let Some(_turn) = nodes.turn(LONGEST_WAIT.min(terms.ttl / 2)).await else {
        return Err(AcquireError::Overloaded { resource: resource.clone() });
    };
    let owner = Owner(random::u128());
    let attempt = Attempt { resource: resource.clone(), owner, mode, terms };
    let mut release_on_drop = ReleaseOnDrop { nodes: Some(nodes), resource, owner };
    let mut acquire = Acquire::new(nodes.size(), attempt.clone(), nodes.clock().now());
    let mut calls = FuturesUnordered::new();
    let outcome = loop {
        while let Some((node, request)) = acquire.next_request() {
            if let Some(answer) = nodes.submit(node, request) {
                calls.push(async move { (node, answer.get().await) });
            }
        }
        if let Some(outcome) = acquire.outcome(nodes.clock().now()) {
            break outcome;
        }
        match calls.next().await {
            Some((node, reply)) => acquire.on_reply(node, reply),
            None => break AcquireOutcome::NoQuorum { granted: 0, faults: Vec::new() },
        }
    };
    match outcome {
        AcquireOutcome::Won { token, deadline } => {
            release_on_drop.nodes = None;
            let held = Arc::new(HeldOnNodes::new(Arc::clone(nodes), attempt, token));
            Ok(Grant { token, deadline, held })
        }
        AcquireOutcome::Held { retry_after, shared } => {
            if let Some(lasting) = drains.filter(|_| shared) {
                drop(nodes.submit_all(&Request::Drain { resource: resource.clone(), lasting }));
            }
            Err(AcquireError::Held { resource: resource.clone(), retry_after })
        }
        AcquireOutcome::NoQuorum { granted: 0, faults }
            if !faults.is_empty() && faults.iter().all(|(_, it)| *it == Fault::Overloaded) =>
        {
            Err(AcquireError::Overloaded { resource: resource.clone() })
        }
        AcquireOutcome::NoQuorum { granted, faults } => {
            Err(nodes.no_quorum(resource, granted, faults))
        }
    }
}

/// Releases everywhere when it is dropped, also where no answer came.
struct ReleaseOnDrop<'a> {
    nodes: Option<&'a Arc<Nodes>>,
    resource: &'a Resource,
    owner: Owner,
}

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(nodes) = self.nodes {
            let request = Request::Release { resource: self.resource.clone(), owner: self.owner };
            drop(nodes.submit_all(&request));
        }
    }
}
