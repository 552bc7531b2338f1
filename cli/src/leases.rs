//! `fencing leases`: who holds what.

use std::time::Duration;

use fencing::Resource;
use fencing::lock::{Fault, sql};
use serde_json::json;

use crate::args::{Chosen, Leases, trimmed};
use crate::duration::about;
use crate::pool::{self, Failure, Pool, answer, on};
use crate::standing::{Fleet, Standing};
use crate::{exit, say};
use wildmatch::WildMatch;

/// How many leases are read from a database at once.
const PAGE: u32 = 1000;
const HEAD: [&str; 6] = ["RESOURCE", "HOLDER", "SINCE", "ENDS IN", "TOKEN", "NODES"];

/// Prints the leases.
pub(crate) async fn main(args: Leases) -> u8 {
    let listed = match args.place.chosen() {
        Ok(Chosen::Redis(urls)) => on_nodes(&args, &urls).await,
        Ok(Chosen::Database(url)) => in_database(&args, url.trim()).await,
        Err(error) => Err(pool::usage(error)),
    };
    match listed {
        Ok(status) => status,
        Err(Failure(status, text)) => {
            say::error(say::without_passwords(&text));
            status
        }
    }
}

async fn on_nodes(args: &Leases, urls: &[String]) -> Result<u8, Failure> {
    let (urls, budget): (Vec<&str>, _) = (trimmed(urls).collect(), args.node_budget);
    let fleet = Fleet::of(&urls, args.place.namespace(), budget).await;
    let mut fleet = fleet.map_err(pool::usage)?;
    let leases = fleet.locks(&WildMatch::new(&args.resource), budget, Duration::MAX).await;
    print(args, &leases, Some(&fleet));
    for (node, fault) in &fleet.faults {
        say::error(format_args!("{node}: {fault}"));
    }
    if fleet.nodes.len() < fleet.needed {
        let (answered, size) = (fleet.nodes.len(), fleet.size);
        let text = format!(
            "{answered} of {size} nodes answered as nodes of this list: that is not a majority"
        );
        return Err(Failure(exit::UNAVAILABLE, text));
    }
    if fleet.may_be_held(0) {
        let (remember, size) = (fleet.remembering(), fleet.size);
        say::error(format_args!(
            "{remember} of {size} nodes remember: a lock that the others have forgotten may be held, and is not shown"
        ));
    }
    Ok(0)
}

async fn in_database(args: &Leases, url: &str) -> Result<u8, Failure> {
    let pool = pool::connect(url, false, 1).await?;
    let found = in_pool(&pool, &WildMatch::new(&args.resource)).await.map_err(refused)?;
    print(args, &found, None);
    Ok(0)
}

/// Reads the leases of this form.
pub(crate) async fn in_pool(pool: &Pool, glob: &WildMatch) -> Result<Vec<Standing>, Fault> {
    let (mut after, mut found) = (None::<Resource>, Vec::new());
    loop {
        let page = on!(pool, pool => answer(sql::leases(pool, after.as_ref(), PAGE)).await)?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.resource.clone());
        let fits = |lease: &sql::SqlLease| glob.matches(lease.resource.as_str());
        found.extend(page.into_iter().filter(fits).map(Standing::from));
    }
}

/// The failure of a database that did not answer, or refused.
pub(crate) fn refused(fault: Fault) -> Failure {
    Failure(exit::UNAVAILABLE, format!("the database: {fault}"))
}

/// Prints them, as the nodes of a fleet or a database showed them.
fn print(args: &Leases, leases: &[Standing], fleet: Option<&Fleet>) {
    if args.json {
        for lease in leases {
            say::out(format_args!("{}\n", described(lease, fleet)));
        }
        return;
    }
    let head = HEAD.map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> =
        std::iter::once(head).chain(leases.iter().map(|lease| row(lease, fleet))).collect();
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

fn row(lease: &Standing, fleet: Option<&Fleet>) -> Vec<String> {
    let none = || "-".to_owned();
    let holder = lease.holder.as_ref();
    let name = holder.and_then(|holder| holder.name.clone()).unwrap_or_else(none);
    let shared = match lease.holders {
        _ if !lease.shared => String::new(),
        // No more than 100 of them are listed.
        holders @ 101.. => format!(" (one of {holders} who share it)"),
        _ => " (shared)".to_owned(),
    };
    let on = match (lease.nodes, fleet) {
        (Some(on), Some(fleet)) if lease.is_held => format!("{on}/{}", fleet.size),
        (Some(on), Some(fleet)) if lease.perhaps => {
            let (remember, size) = (fleet.remembering(), fleet.size);
            format!("{on} of {remember} that remember, of {size}: perhaps held")
        }
        (Some(on), Some(fleet)) => format!("{on}/{}, no majority", fleet.size),
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

fn described(lease: &Standing, fleet: Option<&Fleet>) -> serde_json::Value {
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
        "answered": fleet.map(|fleet| fleet.nodes.len()),
        "remember": fleet.map(Fleet::remembering),
        "of": fleet.map(|fleet| fleet.size),
    })
}
