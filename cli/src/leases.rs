//! `fencing leases`: who holds what.

use std::time::Duration;

use fencing::Resource;
use fencing::lock::{Fault, sql};
use serde_json::json;
use wildmatch::WildMatch;

use crate::args::{Chosen, LeasesArgs};
use crate::duration::about;
use crate::exit::Failure;
use crate::pool::{self, Pool, answer, on};
use crate::say;
use crate::voters::{LockView, Voters};

/// How many leases are read from a database at once.
const PAGE: u32 = 1000;
const HEAD: [&str; 6] = ["RESOURCE", "HOLDER", "SINCE", "ENDS IN", "TOKEN", "NODES"];

/// Prints the leases.
pub(crate) async fn main(args: LeasesArgs) -> Result<u8, Failure> {
    let glob = WildMatch::new(&args.resource);
    let (urls, budget) = match args.place.chosen()? {
        Chosen::Redis(urls) => (urls, args.node_budget),
        Chosen::Database(url) => {
            let pool = pool::connect(&url, false, 1).await?;
            print(&args, &in_pool(&pool, &glob).await?, None);
            return Ok(0);
        }
    };
    let mut voters = Voters::of(&urls, args.place.namespace(), budget).await?;
    let leases = voters.locks(&glob, budget, Duration::MAX).await;
    print(&args, &leases, Some(&voters));
    for (node, fault) in &voters.faults {
        say::error(format_args!("{node}: {fault}"));
    }
    let (answered, size) = (voters.nodes.len(), voters.size);
    if answered < voters.needed {
        return Err(Failure::unavailable(format_args!(
            "{answered} of {size} nodes answered as nodes of this list: that is not a majority"
        )));
    }
    if voters.may_be_held(0) {
        let remember = voters.remembering();
        say::error(format_args!(
            "{remember} of {size} nodes remember: a lock that the others have forgotten may be held, and is not shown"
        ));
    }
    Ok(0)
}

/// Reads the leases of this form.
pub(crate) async fn in_pool(pool: &Pool, glob: &WildMatch) -> Result<Vec<LockView>, Failure> {
    let (mut after, mut found) = (None::<Resource>, Vec::new());
    loop {
        let page = on!(pool, pool => answer(sql::leases(pool, after.as_ref(), PAGE)).await)
            .map_err(refused)?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.resource.clone());
        let fits = |lease: &sql::SqlLease| glob.matches(lease.resource.as_str());
        found.extend(page.into_iter().filter(fits).map(LockView::from));
    }
}

/// The failure of a database that did not answer, or refused.
pub(crate) fn refused(fault: Fault) -> Failure {
    Failure::unavailable(format_args!("the database: {fault}"))
}

/// Prints them, as the nodes of a list or a database showed them.
fn print(args: &LeasesArgs, leases: &[LockView], voters: Option<&Voters>) {
    if args.json {
        for lease in leases {
            say::out(format_args!("{}\n", described(lease, voters)));
        }
        return;
    }
    let head = HEAD.map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> =
        std::iter::once(head).chain(leases.iter().map(|lease| row(lease, voters))).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        say::out(format_args!("{}\n", line.trim_end()));
    }
}

fn row(lease: &LockView, voters: Option<&Voters>) -> Vec<String> {
    let none = || "-".to_owned();
    let holder = lease.holder.as_ref();
    let name = holder.and_then(|holder| holder.name.clone()).unwrap_or_else(none);
    let shared = match lease.holders {
        _ if !lease.shared => String::new(),
        // No more than 100 of them are listed.
        holders @ 101.. => format!(" (one of {holders} that share it)"),
        _ => " (shared)".to_owned(),
    };
    let on = match (lease.nodes, voters) {
        (Some(on), Some(voters)) if lease.is_held => format!("{on}/{}", voters.size),
        (Some(on), Some(voters)) if lease.perhaps => {
            let (remember, size) = (voters.remembering(), voters.size);
            format!("{on} of {remember} that remember, of {size}: perhaps held")
        }
        (Some(on), Some(voters)) => format!("{on}/{}, no majority", voters.size),
        _ => String::new(),
    };
    vec![
        lease.resource.to_string(),
        format!("{name}{shared}"),
        holder.and_then(|holder| holder.since_utc()).unwrap_or_else(none),
        lease.remaining.map_or_else(|| "never".to_owned(), about),
        lease.token.map_or_else(none, |token| token.to_string()),
        on,
    ]
}

fn described(lease: &LockView, voters: Option<&Voters>) -> serde_json::Value {
    let holder = lease.holder.as_ref();
    let millis = |left: Duration| u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    json!({
        "resource": lease.resource.as_str(),
        "holder": holder.and_then(|holder| holder.name.as_deref()),
        "since": holder.and_then(|holder| holder.since_utc()),
        "remaining_ms": lease.remaining.map(millis),
        "token": lease.token.map(|token| token.to_string()),
        "shared": lease.shared,
        "held": (!lease.perhaps).then_some(lease.is_held),
        "nodes": lease.nodes,
        "answered": voters.map(|voters| voters.nodes.len()),
        "remember": voters.map(Voters::remembering),
        "of": voters.map(|voters| voters.size),
    })
}
