use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fencing::lock::{Health, Lock};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::board::Board;

/// How often the nodes are asked while somebody watches.
const PAUSE: Duration = Duration::from_millis(250);
/// An end that moves less than this is the same end, in milliseconds.
const SAME: u64 = 400;

/// Puts up how the lock nodes stand whenever that has changed.
pub async fn watch(lock: Arc<dyn Lock>, board: Arc<Board>) {
    let mut before = BTreeMap::new();
    loop {
        if board.is_watched() {
            let health = lock.health().await;
            let now = states(&health, board.now());
            if !same(&before, &now) {
                let nodes: Vec<_> = now.values().cloned().collect();
                board.put("nodes", json!({ "nodes": nodes, "quorum": health.has_quorum() }));
                before = now;
            }
        }
        sleep(PAUSE).await;
    }
}

/// Each node by name: whether it grants, is quarantined until a time, or is away.
fn states(health: &Health, now: u64) -> BTreeMap<String, Value> {
    let mut states = BTreeMap::new();
    for node in &health.nodes {
        let until = node.quarantine.map(|rest| now + rest.as_millis() as u64);
        let state = if until.is_some() { "quarantined" } else { "grants" };
        states.insert(
            node.node.clone(),
            json!({ "name": node.node, "state": state, "until": until, "era": node.era }),
        );
    }
    for cause in &health.causes {
        let why = cause.cause.to_string();
        let away = json!({ "name": cause.node, "state": "away", "why": why });
        states.entry(cause.node.clone()).or_insert(away);
    }
    states
}

fn same(before: &BTreeMap<String, Value>, now: &BTreeMap<String, Value>) -> bool {
    let close = |a: &Value, b: &Value| match (a["until"].as_u64(), b["until"].as_u64()) {
        (Some(a), Some(b)) => a.abs_diff(b) < SAME,
        (a, b) => a == b,
    };
    before.len() == now.len()
        && now.iter().all(|(name, new)| {
            before.get(name).is_some_and(|old| {
                close(old, new)
                    && old["state"] == new["state"]
                    && old["era"] == new["era"]
                    && old["why"] == new["why"]
            })
        })
}
