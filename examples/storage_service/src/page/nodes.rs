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
    let away = health.causes.iter().map(|cause| {
        let (name, why) = (cause.node.clone(), cause.cause.to_string());
        (name.clone(), json!({ "name": name, "state": "away", "why": why }))
    });
    let there = health.nodes.iter().map(|node| {
        let (name, era) = (node.node.clone(), node.era);
        let until = node.quarantine.map(|rest| now + rest.as_millis() as u64);
        let state = if until.is_some() { "quarantined" } else { "grants" };
        (name.clone(), json!({ "name": name, "state": state, "until": until, "era": era }))
    });
    away.chain(there).collect()
}

fn same(before: &BTreeMap<String, Value>, now: &BTreeMap<String, Value>) -> bool {
    let alike = |(old, new): (&Value, &Value)| {
        let ends = old["until"].as_u64().zip(new["until"].as_u64());
        ends.is_none_or(|(old, new)| old.abs_diff(new) < SAME)
            && ["state", "era", "why"].iter().all(|fact| old[fact] == new[fact])
    };
    before.keys().eq(now.keys()) && before.values().zip(now.values()).all(alike)
}
