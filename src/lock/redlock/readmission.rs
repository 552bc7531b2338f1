use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fencing_protocol::{Fault, Readmit, ReadmitError, Readmitted, StartOrder};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::context::Recovery;
use super::nodes::Nodes;
use crate::lock::error::joined;
use crate::log_throttle::LogThrottle;
use crate::random::jitter;

/// The pause after a re-admission that failed, before the next try.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The shortest quarantine of a started fleet.
pub(super) const SETTLED: Duration = Duration::from_secs(1);
/// The longest pause before counts are collected that were ahead of the clock.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Starts the task that brings nodes back, if none runs.
pub(super) fn start(nodes: &Arc<Nodes>) {
    if let Some(recoveries) = nodes.context.unattended() {
        tokio::spawn(run(Arc::downgrade(nodes), recoveries));
    }
}

/// Brings nodes back that have forgotten, in the background, as soon as a client sees one.
async fn run(nodes: Weak<Nodes>, mut recoveries: mpsc::Receiver<Recovery>) {
    let mut not_before: BTreeMap<(usize, bool), Instant> = BTreeMap::new();
    let mut warnings: BTreeMap<usize, LogThrottle> = BTreeMap::new();
    // Each counts as outstanding until it is done.
    while let Some(recovery) = recoveries.recv().await {
        let Recovery { node: target, collect, .. } = recovery;
        if not_before.get(&(target, collect)).is_some_and(|at| Instant::now() < *at) {
            continue;
        }
        let Some(nodes) = nodes.upgrade() else { return };
        let outcome = readmit(&nodes, target, collect, nodes.start_order()).await;
        let name = nodes.name(target);
        match &outcome {
            Ok(back) => {
                let closed = back.quarantine.as_millis() as u64;
                let words = words(*back);
                tracing::info!(node = name, collect, closed_ms = closed, "node admitted{words}");
                metrics::counter!("fencing_readmissions_total").increment(1);
            }
            Err(error) => {
                if let Some(suppressed) = warnings.entry(target).or_default().next() {
                    let causes = match error {
                        ReadmitError::Missing(faults) | ReadmitError::NotStarted(faults) => {
                            joined(&nodes.causes(faults.clone()))
                        }
                        _ => String::new(),
                    };
                    tracing::warn!(node = name, collect, %error, causes, suppressed, "node not re-admitted yet");
                }
            }
        }
        // Answers from before the admission are still in flight.
        let mut pause = RETRY_INTERVAL / 2 + jitter(RETRY_INTERVAL);
        if let Err(ReadmitError::AheadOfClock { era, clock }) = outcome {
            pause += ahead(era, clock).min(MAX_PAUSE);
        }
        not_before.insert((target, collect), Instant::now() + pause);
        nodes.set_blocked(target, outcome.err().and_then(|error| blocked(&nodes, target, error)));
    }
}

/// Returns how long the clock takes to pass the era: a second for each.
fn ahead(era: u64, clock: u64) -> Duration {
    Duration::from_secs((era + 1).saturating_sub(clock))
}

/// Returns why that node gives no vote, for the callers that ask for it.
fn blocked(nodes: &Nodes, target: usize, error: ReadmitError) -> Option<Fault> {
    match error {
        ReadmitError::Missing(faults) => {
            // It answers, and can't be admitted as it is.
            let own = faults.into_iter().find(|(node, _)| *node == target);
            own.map(|(_, fault)| fault).filter(|fault| !fault.is_silent())
        }
        ReadmitError::NotStarted(faults) => {
            let others = faults.into_iter().filter(|(node, _)| *node != target);
            let missing: Vec<String> = others.map(|(node, _)| nodes.name(node).to_owned()).collect();
            (!missing.is_empty()).then_some(Fault::NotStarted { missing })
        }
        ReadmitError::Strict => Some(Fault::Strict),
        ReadmitError::Elsewhere(node, fault) => (node == target).then_some(fault),
        ReadmitError::AheadOfClock { era, clock } => Some(Fault::EraAhead(ahead(era, clock))),
        ReadmitError::NoEra | ReadmitError::Overtaken => None,
    }
}

/// Returns what clients wait for, and how an operator skips that.
fn words(back: Readmitted) -> String {
    if back.quarantine <= SETTLED {
        return String::new();
    }
    let who = if back.fleet { "the fleet" } else { "it" };
    format!(
        "; {who} grants nothing until the locks that it may have forgotten have expired; \
         `fencing fleet recover --now` says when and how to end that"
    )
}

pub(super) async fn readmit(
    nodes: &Nodes,
    target: usize,
    collect: bool,
    order: StartOrder,
) -> Result<Readmitted, ReadmitError> {
    let mut readmit = Readmit::new(nodes.size(), target, collect, order);
    let answers = nodes.begin(&mut readmit);
    nodes.drive(&mut readmit, answers).await.unwrap_or(Err(ReadmitError::Overtaken))
}
