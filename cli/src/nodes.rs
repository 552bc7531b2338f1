use std::time::Duration;

use fencing::lock::Fault;
use serde_json::{Value, json};

use crate::duration::millis;
use crate::exit::{Failure, Status};
use crate::findings::{self, Finding, Findings, NodeBudget};
use crate::lock_service::Redis;
use crate::say;

/// Reports the state of the nodes, and changes nothing on them. Fails if no majority can grant a lock now.
///
/// Prints one line for each node that answers, and below them each problem once, with the nodes that have it. A node
/// that is not admitted has forgotten its locks; the next client that wants a lock brings it back, or `fencing fleet
/// recover` does. A node that is quarantined grants nothing until the locks that it may have forgotten have expired.
#[derive(Debug, clap::Args)]
pub(crate) struct NodesArgs {
    #[command(flatten)]
    redis: Redis,
    #[command(flatten)]
    budget: NodeBudget,
    /// Prints a JSON array with an object for each node.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn main(args: NodesArgs) -> Result<Status, Failure> {
    let findings = findings::ask(&args.redis, args.budget.within(Duration::MAX)).await?;
    if args.json {
        let array: Vec<Value> = findings.nodes.iter().map(described).collect();
        say::out(format_args!("{:#}\n", Value::Array(array)));
    } else {
        findings.print();
    }
    verdict(&findings).map(|()| Status::DONE)
}

pub(crate) fn verdict(findings: &Findings) -> Result<(), Failure> {
    let (granting, needed) = (findings.granting(), findings.needed());
    if findings.count(|finding| matches!(finding.problem, Some(Fault::SameServer(_)))) > 0 {
        let why = "one server is in the list under two names, and has one vote: give each name a server of its own";
        return Err(if granting >= needed { Failure::refused(why) } else { Failure::unavailable(why) });
    }
    if granting >= needed {
        return Ok(());
    }
    let opens = |finding: &Finding| finding.problem.is_some() && finding.opens_in().is_some();
    let closed = match findings.count(opens) {
        0 => String::new(),
        1 => "; 1 is quarantined, which ends by itself".to_owned(),
        closed => format!("; {closed} are quarantined, which ends by itself"),
    };
    let nodes = findings.nodes.len();
    Err(Failure::unavailable(format_args!(
        "no quorum: {granting} of {nodes} nodes can grant a lock now, {needed} are needed{closed}"
    )))
}

fn described(finding: &Finding) -> Value {
    let report = finding.report.as_ref();
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
        "quarantine_ms": report.and_then(|report| report.quarantine).map(millis),
        "longest_ms": report.map(|report| millis(report.longest)),
        "counts": report.map(|report| report.counts),
        "crowded": report.map(|report| report.crowded),
        "refuses": report.and_then(|report| report.refuses.as_ref()),
        "uptime_s": report.map(|report| report.uptime.as_secs()),
        "maxmemory": report.map(|report| report.maxmemory),
        "maxmemory_policy": report.map(|report| &report.maxmemory_policy),
        "version": report.map(|report| &report.version),
    })
}
