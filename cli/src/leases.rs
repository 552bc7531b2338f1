//! `fencing leases`: who holds what.

use std::time::Duration;

use fencing::Resource;
use fencing::lock::{Fault, sql};
use serde_json::json;
use wildmatch::WildMatch;

use crate::duration::{self, millis};
use crate::exit::Failure;
use crate::place::{Chosen, LockPlace};
use crate::pool::{self, Pool, answer, on};
use crate::say;
use crate::voters::{LockView, Voters};

/// Lists the leases that are held: of what, by whom, since when, for how long still, and with which token.
///
/// The name and the time come from the holder, by its own clock. On nodes the command scans the keys in small steps,
/// and shows how many nodes have the lock: on less than a majority it is what is left of an attempt, or of a lease that
/// ends. Where some nodes do not answer or may have forgotten locks, it is perhaps held (in JSON "held" is null). A
/// token that is not shown is from before the present era, or the nodes do not agree on it. Status 0 means that the
/// list is complete for every lock that a majority holds.
#[derive(Debug, clap::Args)]
pub(crate) struct LeasesArgs {
    #[command(flatten)]
    place: LockPlace,
    /// Lists only resources that match: * is any text, ? any character.
    #[arg(long, value_name = "GLOB", default_value = "*")]
    resource: String,
    /// How long one node may take to answer each time.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    node_budget: Duration,
    /// Prints a JSON object for each lease, one in each line.
    #[arg(long)]
    json: bool,
}

/// How many leases are read from a database at once.
const PAGE: u32 = 1000;
const HEAD: [&str; 6] = ["RESOURCE", "HOLDER", "SINCE", "ENDS IN", "TOKEN", "NODES"];

/// Prints the leases.
pub(crate) async fn main(args: LeasesArgs) -> Result<u8, Failure> {
    let glob = WildMatch::new(&args.resource);
    let (redis, budget) = match args.place.chosen()? {
        Chosen::Redis(redis) => (redis, args.node_budget),
        Chosen::Database(url) => {
            let pool = pool::connect(&url, false, 1).await?;
            print(&args, &in_pool(&pool, &glob).await?, None);
            return Ok(0);
        }
    };
    let mut voters = Voters::of(&redis, budget).await?;
    let leases = voters.locks(&glob, budget, Duration::MAX).await;
    print(&args, &leases, Some(&voters));
    voters.print_faults();
    voters.check_majority("the list is not complete")?;
    if voters.may_be_held(0) {
        let (remember, size) = (voters.remembering(), voters.size());
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
    let rows = leases.iter().map(|lease| {
        let [resource, holder, since, ends, token] = lease.columns();
        [resource, holder, since, ends, token, on_nodes(lease, voters)]
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

fn on_nodes(lease: &LockView, voters: Option<&Voters>) -> String {
    let (Some(on), Some(voters)) = (lease.nodes, voters) else { return String::new() };
    let (remember, size) = (voters.remembering(), voters.size());
    match lease.perhaps {
        _ if lease.is_held => format!("{on}/{size}"),
        true => format!("{on} of {remember} that remember, of {size}: perhaps held"),
        false => format!("{on}/{size}, no majority"),
    }
}

fn described(lease: &LockView, voters: Option<&Voters>) -> serde_json::Value {
    let holder = lease.holder.as_ref();
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
        "of": voters.map(Voters::size),
    })
}
