use std::time::Duration;

use fencing::lock::Fault;
use serde_json::{Value, json};

use crate::args::Nodes;
use crate::findings::{self, Finding, Findings};
use crate::{exit, say};

/// Asks all nodes at once and prints their answers.
pub(crate) async fn main(nodes: Nodes) -> u8 {
    let asked = findings::ask(nodes.redis.urls(), &nodes.redis.namespace, nodes.node_budget);
    let findings = match asked.await {
        Ok(findings) => findings,
        Err(error) => {
            say::error(error);
            return exit::USAGE;
        }
    };
    if nodes.json {
        let array: Vec<Value> = findings.nodes.iter().map(json).collect();
        say::out(format_args!("{:#}\n", Value::Array(array)));
    } else {
        findings.print();
    }
    verdict(&findings)
}

/// Returns the exit status, and says why it is not zero.
pub(crate) fn verdict(findings: &Findings) -> u8 {
    if findings.count(|finding| matches!(finding.problem, Some(Fault::SameServer(_)))) > 0 {
        say::error(
            "one server stands in the list under two names; it has one vote: take one of the \
             names out",
        );
        return exit::UNAVAILABLE;
    }
    if findings.has_quorum() {
        return 0;
    }
    let closed = match findings.admitted() - findings.granting() {
        0 => String::new(),
        1 => ", 1 more is quarantined, which ends by itself".to_owned(),
        closed => format!(", {closed} more are quarantined, which ends by itself"),
    };
    say::error(format_args!(
        "no quorum: {} of {} nodes can grant a lock now, {} are needed{closed}",
        findings.granting(),
        findings.nodes.len(),
        findings.needed()
    ));
    exit::UNAVAILABLE
}

fn json(finding: &Finding) -> Value {
    let report = finding.report.as_ref().ok();
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let quarantine = report.and_then(|report| report.quarantine);
    json!({
        "node": finding.node,
        "reachable": report.is_some(),
        "admitted": finding.is_admitted(),
        "usable": finding.problem.is_none(),
        "problem": finding.problem.as_ref().map(|fault| fault.to_string()),
        "run_id": report.map(|report| &report.run_id),
        "admitted_as": report.and_then(|report| report.admitted_as.as_ref()),
        "fleet": report.map(|report| &report.fleet),
        "moved_to": report.map(|report| &report.moved_to).filter(|to| !to.is_empty()),
        "era": report.and_then(|report| report.era),
        "quarantine_ms": quarantine.map(millis),
        "longest_ms": report.map(|report| millis(report.longest)),
        "counts": report.map(|report| report.counts),
        "crowded": report.map(|report| report.crowded),
        "uptime_s": report.map(|report| report.uptime.as_secs()),
        "maxmemory": report.map(|report| report.maxmemory),
        "maxmemory_policy": report.map(|report| &report.maxmemory_policy),
        "version": report.map(|report| &report.version),
    })
}
