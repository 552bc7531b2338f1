//! `fencing leases`: who holds what.

use std::time::Duration;

use serde_json::json;
use wildmatch::WildMatch;

use crate::duration::{self, millis};
use crate::exit::Failure;
use crate::lease_list::{LeaseList, LockView};
use crate::place::LockPlace;
use crate::say;
use crate::voters::{Turnout, print_faults};

/// Lists held leases: resource, holder, start, time left and token.
///
/// The name and the time come from the holder, by its own clock. On nodes the command scans the keys in small steps,
/// and shows how many nodes have the lock: on less than a majority it is an unfinished attempt or an ending lease.
/// Where some nodes do not answer or may have forgotten locks, it is perhaps held (in JSON "held" is null). A token
/// that is not shown is from before the present era, or the nodes do not agree on it. Status 0 means that the list is
/// complete for every lock that a majority holds.
#[derive(Debug, clap::Args)]
pub(crate) struct LeasesArgs {
    #[command(flatten)]
    place: LockPlace,
    /// Lists only resources that match: * is any text, ? any character.
    #[arg(long, value_name = "GLOB", default_value = "*")]
    resource: String,
    /// Time limit for an answer of one node.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    node_budget: Duration,
    /// Prints a JSON object for each lease, one in each line.
    #[arg(long)]
    json: bool,
}

const HEAD: [&str; 6] = ["RESOURCE", "HOLDER", "SINCE", "ENDS IN", "TOKEN", "NODES"];

pub(crate) async fn main(args: LeasesArgs) -> Result<u8, Failure> {
    let (place, glob) = (args.place.chosen(false)?, WildMatch::new(&args.resource));
    let leases = LeaseList::of(&place, &glob, args.node_budget, Duration::MAX).await?;
    if args.json {
        for lease in &leases.all {
            say::out(format_args!("{}\n", described(lease, leases.turnout)));
        }
    } else {
        print(&leases);
    }
    let Some(turnout) = leases.turnout else { return Ok(0) };
    print_faults(&leases.faults);
    turnout.check_majority("the list is not complete")?;
    if turnout.may_be_held(0) {
        let Turnout { remember, size, .. } = turnout;
        say::error(format_args!(
            "{remember} of {size} nodes remember: a lock that the others have forgotten may be held, and is not shown"
        ));
    }
    Ok(0)
}

fn print(leases: &LeaseList) {
    let rows = leases.all.iter().map(|lease| {
        let [resource, holder, since, ends, token] = lease.columns();
        [resource, holder, since, ends, token, on_nodes(lease, leases.turnout)]
    });
    let rows: Vec<_> = std::iter::once(HEAD.map(str::to_owned)).chain(rows).collect();
    let mut widths = [0; HEAD.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        say::out(format_args!("{}\n", line.trim_end()));
    }
}

fn on_nodes(lease: &LockView, turnout: Option<Turnout>) -> String {
    let (Some(on), Some(Turnout { remember, size, .. })) = (lease.nodes, turnout) else {
        return String::new();
    };
    match lease.held {
        Some(true) => format!("{on}/{size}"),
        Some(false) => format!("{on}/{size}, no majority"),
        None => format!("{on} of {remember} that remember, of {size}: perhaps held"),
    }
}

fn described(lease: &LockView, turnout: Option<Turnout>) -> serde_json::Value {
    let holder = lease.holder.as_ref();
    json!({
        "resource": lease.resource.as_str(),
        "holder": holder.and_then(|holder| holder.name.as_deref()),
        "since": holder.and_then(|holder| holder.since_utc()),
        "remaining_ms": lease.remaining.map(millis),
        "token": lease.token.map(|token| token.to_string()),
        "shared": lease.shared,
        "held": lease.held,
        "nodes": lease.nodes,
        "answered": turnout.map(|turnout| turnout.answered),
        "remember": turnout.map(|turnout| turnout.remember),
        "of": turnout.map(|turnout| turnout.size),
    })
}
