use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fencing_protocol::{Fault, Readmission, Readmit, ReadmitError, Reply, Request};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::context::Recovery;
use super::nodes::Nodes;
use crate::log_throttle::LogThrottle;
use crate::random::jitter;

/// The pause after a re-admission that failed, before the next try.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The longest pause before counts are collected that were ahead of the clock.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// How long a client waits for clients with another list before it starts blank nodes, besides budgets. They connect
/// again within a second, the longest pause between two attempts.
const OTHER_LISTS_TIMEOUT: Duration = Duration::from_millis(1200);

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
        let outcome = readmit(&nodes, nodes.readmission(target, collect)).await;
        let name = nodes.name(target);
        match &outcome {
            Ok(back) => {
                let closed = back.closed.as_millis() as u64;
                let words = back.words();
                tracing::info!(node = name, collect, closed_ms = closed, "node admitted{words}");
                metrics::counter!("fencing_readmissions_total").increment(1);
            }
            Err(error) => {
                if let Some(suppressed) = warnings.entry(target).or_default().next() {
                    let words = failed(&nodes, target, error);
                    tracing::warn!(node = name, %error, suppressed, "{words}");
                }
            }
        }
        // Answers from before the admission are still on their way here.
        let mut pause = RETRY_INTERVAL / 2 + jitter(RETRY_INTERVAL);
        if let Err(ReadmitError::AheadOfClock { era, clock }) = outcome {
            // The clock takes a second for each era.
            pause += Duration::from_secs((era + 1).saturating_sub(clock)).min(MAX_PAUSE);
        }
        not_before.insert((target, collect), Instant::now() + pause);
        nodes.set_blocked(target, outcome.err().and_then(|error| blocked(&nodes, target, error)));
    }
}

fn failed(nodes: &Nodes, target: usize, error: &ReadmitError) -> String {
    let faults = match error {
        ReadmitError::Missing(faults) | ReadmitError::NotStarted(faults) => faults,
        ReadmitError::AheadOfClock { .. } => return "counts not collected yet".into(),
        _ => return "node not admitted yet".into(),
    };
    let fault = |(node, fault): &(usize, Fault)| format!("{}: {fault}", nodes.name(*node));
    let faults: Vec<String> = faults.iter().map(fault).collect();
    format!("node {} not admitted yet: {}", nodes.name(target), faults.join("; "))
}

/// Returns why that node gives no vote, for the callers that ask for it.
fn blocked(nodes: &Nodes, target: usize, error: ReadmitError) -> Option<Fault> {
    match error {
        ReadmitError::Missing(faults) => {
            // It answers, and can't be admitted as it is.
            let own = faults.into_iter().find(|(node, _)| *node == target);
            own.map(|(_, fault)| fault).filter(|fault| !is_silence(fault))
        }
        ReadmitError::NotStarted(faults) => {
            let others = faults.into_iter().filter(|(node, _)| *node != target);
            let missing: Vec<String> =
                others.map(|(node, _)| nodes.name(node).to_owned()).collect();
            (!missing.is_empty()).then_some(Fault::NotStarted { missing })
        }
        ReadmitError::Strict => Some(Fault::Strict),
        ReadmitError::Elsewhere(_, fault) => Some(fault),
        ReadmitError::AheadOfClock { era, clock } => {
            Some(Fault::EraAhead(Duration::from_secs((era + 1).saturating_sub(clock))))
        }
        ReadmitError::NoEra | ReadmitError::Overtaken => None,
    }
}

fn is_silence(fault: &Fault) -> bool {
    matches!(fault, Fault::TimedOut | Fault::Unreachable(_) | Fault::Disconnected(_))
}

/// What a re-admission brought back.
pub(super) struct Readmitted {
    /// How long it still grants nothing.
    closed: Duration,
    /// Whether it was the whole fleet, and not one node.
    fleet: bool,
}

impl Readmitted {
    /// Returns what clients wait for, and how an operator skips that.
    fn words(&self) -> &'static str {
        /// How long each start takes.
        const SETTLED: Duration = Duration::from_secs(1);
        match self.fleet {
            _ if self.closed <= SETTLED => "",
            true => {
                "; the fleet grants nothing until the locks that it may have forgotten have \
                 expired; if no lock is held, `fencing fleet admit --now` ends that"
            }
            false => {
                "; it grants nothing until the locks that it may have forgotten have expired; \
                 `fencing fleet admit --now` skips that, if no lock is held"
            }
        }
    }
}

pub(super) async fn readmit(nodes: &Nodes, order: Readmission) -> Result<Readmitted, ReadmitError> {
    let mut readmit = Readmit::new(nodes.size(), order);
    let mut calls = FuturesUnordered::new();
    let mut back = Readmitted { closed: Duration::ZERO, fleet: false };
    let mut waited = false;
    // A start that an operator vouches for, and nodes with a trace of this fleet, belong to no other list.
    let mut others_waited = order.assume_no_locks;
    loop {
        while let Some((node, request)) = readmit.next_request() {
            let phase = readmit.phase();
            match &request {
                Request::Activate { quarantine, .. } => back.closed = *quarantine,
                Request::Reserve { memory: Some(_), .. } => back.fleet = true,
                _ => {}
            }
            // A request that was on its way to the others when the target forgot is given up
            // by its client before they are asked what may be out.
            if matches!(request, Request::Reserve { memory: None, .. }) && !waited {
                sleep(nodes.context.budget * 2).await;
                waited = true;
            }
            // Blank nodes may belong to a longer list, whose clients bring them back meanwhile: the promise is
            // then refused. Later it would be too late, as a node that is active is bound to this list.
            if matches!(request, Request::Reserve { memory: Some(_), .. }) && !others_waited {
                sleep(OTHER_LISTS_TIMEOUT + nodes.context.budget * 4).await;
                others_waited = true;
            }
            let answer = nodes.ask(node, request);
            calls.push(async move { (phase, node, answer.await) });
        }
        if let Some(outcome) = readmit.outcome() {
            return outcome.map(|()| back);
        }
        match calls.next().await {
            Some((phase, node, reply)) => {
                if let Ok(Reply::Prepared(prepared)) = &reply {
                    // It has forgotten nothing: only its counts are collected.
                    waited |= prepared.admitted;
                    others_waited |= !prepared.blank;
                }
                readmit.on_reply(phase, node, reply);
            }
            None => return Err(ReadmitError::Overtaken),
        }
    }
}
