use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::bell::Notice;
use super::fleet::Fleet;
use crate::lock::entropy;
use crate::lock::sleep::jitter;
use crate::quorum::{Nonce, Readmission, Readmit, ReadmitError};

/// The pause after a re-admission that failed, before the next try.
const PAUSE: Duration = Duration::from_millis(100);

/// Brings nodes back that have forgotten, in the background, as soon as a client sees one.
pub(super) async fn run(fleet: Weak<Fleet>, mut notices: mpsc::Receiver<Notice>) {
    let mut not_before: BTreeMap<usize, Instant> = BTreeMap::new();
    while let Some(notice) = notices.recv().await {
        let (Notice::NotAdmitted(target) | Notice::Collect(target)) = notice;
        if not_before.get(&target).is_some_and(|at| Instant::now() < *at) {
            continue;
        }
        let Some(fleet) = fleet.upgrade() else { return };
        let collect = matches!(notice, Notice::Collect(_));
        let name = fleet.name(target).to_owned();
        match readmit(&fleet, target, collect).await {
            Ok(()) => {
                tracing::info!(node = name, collect, "node admitted");
                metrics::counter!("fencing_readmissions_total").increment(1);
            }
            Err(error) => {
                tracing::warn!(node = name, %error, "node not admitted yet");
            }
        }
        // Answers from before the admission are still on their way here.
        not_before.insert(target, Instant::now() + PAUSE / 2 + jitter(PAUSE));
    }
}

async fn readmit(fleet: &Fleet, target: usize, collect: bool) -> Result<(), ReadmitError> {
    let order = Readmission {
        target,
        collect,
        nonce: Nonce(entropy::u128()),
        longest: fleet.longest(),
        strict: fleet.strict(),
    };
    let mut readmit = Readmit::new(fleet.size(), order);
    let mut calls = FuturesUnordered::new();
    loop {
        while let Some((node, request)) = readmit.next_request() {
            let phase = readmit.phase();
            let Some(answer) = fleet.submit(node, request) else { continue };
            calls.push(async move { (phase, node, answer.get().await) });
        }
        if let Some(outcome) = readmit.outcome() {
            return outcome;
        }
        match calls.next().await {
            Some((phase, node, reply)) => readmit.on_reply(phase, node, reply),
            None => return Err(ReadmitError::Overtaken),
        }
    }
}
