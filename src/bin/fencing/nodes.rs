use std::time::Duration;

use fencing::Redlock;
use fencing::lock::redlock::{BuildError, Node, NodeReport, RedisNode};
use fencing::quorum::{Fault, majority};
use serde_json::{Value, json};

use crate::args::Nodes;
use crate::duration::show;
use crate::{exit, say};

/// What one node answered, or why it did not.
struct Finding {
    node: String,
    report: Result<NodeReport, Fault>,
}

/// Asks all nodes at once and prints what they say.
pub(crate) async fn main(nodes: Nodes) -> u8 {
    let findings = match ask(&nodes).await {
        Ok(findings) => findings,
        Err(error) => {
            say::error(error);
            return exit::USAGE;
        }
    };
    if nodes.json {
        let array: Vec<Value> = findings.iter().map(Finding::json).collect();
        say::out(format_args!("{:#}\n", Value::Array(array)));
    } else {
        for finding in &findings {
            say::out(format_args!("{}: {}\n", finding.node, finding.line(nodes.node_budget)));
        }
    }
    let usable = findings.iter().filter(|finding| finding.usable()).count();
    let needed = majority(findings.len());
    if usable >= needed {
        return 0;
    }
    say::error(format_args!(
        "no quorum: {usable} of {} nodes are admitted and reachable, {needed} are needed",
        findings.len()
    ));
    exit::UNAVAILABLE
}

async fn ask(nodes: &Nodes) -> Result<Vec<Finding>, BuildError> {
    // What a lock service would not be built from is wrong here, too.
    Redlock::builder().redis(nodes.redis.urls()).namespace(&nodes.redis.namespace).build()?;
    let mut asked = Vec::new();
    for url in nodes.redis.urls() {
        let node = RedisNode::new(url, &nodes.redis.namespace)?;
        let (name, budget) = (node.name().to_owned(), nodes.node_budget);
        asked.push((name, tokio::spawn(async move { node.inspect(budget).await })));
    }
    let mut findings = Vec::new();
    for (node, report) in asked {
        let gone = |error| Err(Fault::Disconnected(format!("not asked: {error}")));
        findings.push(Finding { node, report: report.await.unwrap_or_else(gone) });
    }
    Ok(findings)
}

impl Finding {
    fn usable(&self) -> bool {
        self.report.as_ref().is_ok_and(NodeReport::usable)
    }

    fn line(&self, budget: Duration) -> String {
        let report = match &self.report {
            Ok(report) => report,
            Err(fault) => return format!("{fault}{}", advice(fault, None, budget)),
        };
        let state = match report.problem() {
            None => "admitted".to_owned(),
            Some(Fault::Quarantined(left)) => format!("admitted, {}", quarantined(left)),
            Some(fault) => format!("{fault}{}", advice(&fault, Some(report), budget)),
        };
        let era = report.era.map_or_else(|| "none".to_owned(), |era| era.to_string());
        let policy = &report.maxmemory_policy;
        let unlimited = if report.maxmemory == 0 { " (no maxmemory)" } else { "" };
        format!("{state}; era {era}, run_id {}, policy {policy}{unlimited}", report.run_id)
    }

    fn json(&self) -> Value {
        let report = self.report.as_ref().ok();
        let problem = match &self.report {
            Ok(report) => report.problem(),
            Err(fault) => Some(fault.clone()),
        };
        let quarantine = report.and_then(|report| report.quarantine);
        json!({
            "node": self.node,
            "reachable": report.is_some(),
            "admitted": report.is_some_and(NodeReport::admitted),
            "usable": self.usable(),
            "problem": problem.map(|fault| fault.to_string()),
            "run_id": report.map(|report| &report.run_id),
            "admitted_as": report.and_then(|report| report.admitted_as.as_ref()),
            "era": report.and_then(|report| report.era),
            "quarantine_ms": quarantine.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            "maxmemory": report.map(|report| report.maxmemory),
            "maxmemory_policy": report.map(|report| &report.maxmemory_policy),
            "version": report.map(|report| &report.version),
        })
    }
}

fn quarantined(left: Duration) -> String {
    if left == Duration::MAX {
        "but its quarantine key has no expiry: delete it".to_owned()
    } else {
        format!("grants nothing for another {}", show(left))
    }
}

/// What an operator can do about it.
fn advice(fault: &Fault, report: Option<&NodeReport>, budget: Duration) -> String {
    let text = match fault {
        Fault::Unreachable(_) => " (is it running? is the URL right?)",
        Fault::TimedOut => {
            return format!(": no answer within {} (hung, or out of reach?)", show(budget));
        }
        Fault::Denied(_) => " (check user, password and ACL)",
        Fault::NotMaster => " (a node is a master of its own, without failover)",
        Fault::MaxmemoryPolicy(_) => {
            ", or locks are evicted (CONFIG SET maxmemory-policy noeviction)"
        }
        Fault::NotAdmitted => match report.and_then(|report| report.admitted_as.as_ref()) {
            Some(_) => ": it has restarted since; the next client brings it back",
            None => {
                ": it knows of no locks (new, flushed or restarted empty); the next client brings it back"
            }
        },
        _ => "",
    };
    text.to_owned()
}
