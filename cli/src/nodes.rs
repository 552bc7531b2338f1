use std::time::Duration;

use fencing::lock::Fault;
use serde_json::{Value, json};

use crate::args::NodesArgs;
use crate::exit::Failure;
use crate::findings::{self, Finding, Findings};
use crate::say;

/// Asks all nodes at once and prints their answers.
pub(crate) async fn main(args: NodesArgs) -> Result<u8, Failure> {
    let NodesArgs { redis, node_budget, json } = args;
    let asked = findings::ask(redis.urls(), &redis.namespace, node_budget);
    let findings = asked.await.map_err(Failure::usage)?;
    if json {
        let array: Vec<Value> = findings.nodes.iter().map(described).collect();
        say::out(format_args!("{:#}\n", Value::Array(array)));
    } else {
        findings.print();
    }
    verdict(&findings).map(|()| 0)
}

/// Fails if no majority can grant a lock now.
pub(crate) fn verdict(findings: &Findings) -> Result<(), Failure> {
    if findings.count(|finding| matches!(finding.problem, Some(Fault::SameServer(_)))) > 0 {
        return Err(Failure::unavailable(
            "one server is in the list under two names, and has one vote: remove one of the \
             names",
        ));
    }
    if findings.has_quorum() {
        return Ok(());
    }
    let closed = match findings.admitted() - findings.granting() {
        0 => String::new(),
        1 => ", 1 more is quarantined, which ends by itself".to_owned(),
        closed => format!(", {closed} more are quarantined, which ends by itself"),
    };
    Err(Failure::unavailable(format_args!(
        "no quorum: {} of {} nodes can grant a lock now, {} are needed{closed}",
        findings.granting(),
        findings.nodes.len(),
        findings.needed()
    )))
}

fn described(finding: &Finding) -> Value {
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
