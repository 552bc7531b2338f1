use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use fencing::lock::redlock::NodeLock;
use fencing::lock::{Fault, Holder, LeaseRecord, Operator};
use fencing::{Resource, Token};
use serde_json::json;
use tokio::time::timeout;
use wildmatch::WildMatch;

use crate::duration::{about, millis};
use crate::exit::{Failure, Status};
use crate::findings::{self, NodeBudget, Turnout, print_faults};
use crate::lock_service::{LockService, LockUrl, Redis};
use crate::pool::with_timeout;
use crate::say;

/// Lists held leases: resource, holder, start, time left and token.
///
/// The holder reports its name, and the start by its own clock. On nodes the command scans the keys, and shows how many
/// have the lock: less than a majority is an unfinished attempt or an ending lease. If some nodes do not answer or may
/// have forgotten locks, it is perhaps held (in JSON "held" is null). No token is shown if it is of an earlier era, or
/// the nodes disagree. Status 0: every lock that a majority holds is listed, unless a message says otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct LeasesArgs {
    #[command(flatten)]
    lock: LockUrl,
    /// Lists only resources that match: * is any text, ? any character.
    #[arg(long, value_name = "GLOB", default_value = "*")]
    resource: String,
    #[command(flatten)]
    budget: NodeBudget,
    /// Prints a JSON object for each lease, one per line.
    #[arg(long)]
    json: bool,
}

const PAGE: u32 = 1000;
const HEAD: [&str; 6] = ["RESOURCE", "HOLDER", "SINCE", "ENDS IN", "TOKEN", "NODES"];

pub(crate) async fn main(args: LeasesArgs) -> Result<Status, Failure> {
    let (glob, budget) = (WildMatch::new(&args.resource), args.budget.within(Duration::MAX));
    let leases = match args.lock.chosen()? {
        LockService::Redis(redis) => LeaseList::on_nodes(&redis, &glob, budget, Duration::MAX).await?,
        service => LeaseList::of_service(&*service.operator().await?, &glob).await?,
    };
    if args.json {
        for lease in &leases.all {
            say::out(format_args!("{}\n", described(lease, leases.turnout)));
        }
    } else {
        print(&leases);
    }
    let Some(turnout) = leases.turnout else { return Ok(Status::DONE) };
    print_faults(&leases.faults);
    turnout.check_majority("the list is not complete")?;
    if turnout.may_be_held(0) {
        let Turnout { remember, size, .. } = turnout;
        say::error(format_args!(
            "{remember} of {size} nodes remember: a lock that the others have forgotten may be held, but is not listed"
        ));
    }
    Ok(Status::DONE)
}

fn print(leases: &LeaseList) {
    let rows = leases.all.iter().map(|lease| {
        let [resource, holder, since, ends, token] = lease.columns();
        [resource, holder, since, ends, token, on_nodes(lease, leases.turnout)]
    });
    let rows: Vec<_> = std::iter::once(HEAD.map(str::to_owned)).chain(rows).collect();
    let mut widths = [0; HEAD.len()];
    for row in &rows {
        let cells = row.iter().map(|cell| cell.chars().count());
        widths.iter_mut().zip(cells).for_each(|(width, cell)| *width = cell.max(*width));
    }
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        say::out(format_args!("{}\n", line.trim_end()));
    }
}

fn on_nodes(lease: &LockView, turnout: Option<Turnout>) -> String {
    let (Some(on), Some(Turnout { remember, size, .. })) = (lease.nodes, turnout) else { return String::new() };
    match lease.held {
        Some(true) => format!("{on}/{size}"),
        Some(false) => format!("{on}/{size}, no majority"),
        None => format!("{on} of {remember} nodes that remember, of {size}: perhaps held"),
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

#[derive(Default)]
pub(crate) struct LeaseList {
    pub(crate) all: Vec<LockView>,
    /// The nodes that have listed theirs. `None` where one service keeps the leases.
    pub(crate) turnout: Option<Turnout>,
    pub(crate) faults: Vec<(String, Fault)>,
}

pub(crate) struct LockView {
    pub(crate) resource: Resource,
    pub(crate) holder: Option<Holder>,
    pub(crate) shared: bool,
    /// Number of shared holders on one node; 0 if unknown.
    pub(crate) holders: u64,
    /// Time until it expires; `None` if never.
    pub(crate) remaining: Option<Duration>,
    pub(crate) token: Option<Token>,
    pub(crate) nodes: Option<usize>,
    /// Whether a majority has it. `None` if nodes that do not answer, or have forgotten locks, could make it one.
    pub(crate) held: Option<bool>,
}

impl LeaseList {
    /// Reads the leases of this form on all nodes at once. Each may take `budget` for each step, and `longest` in all.
    pub(crate) async fn on_nodes(
        redis: &Redis,
        glob: &WildMatch,
        budget: Duration,
        longest: Duration,
    ) -> Result<LeaseList, Failure> {
        let mut nodes = findings::ask(redis, budget).await?;
        let fits = |resource: &Resource| glob.matches(resource.as_str());
        let locks = nodes
            .ask_voters(async |node| timeout(longest, node.locks(fits, budget)).await.unwrap_or(Err(Fault::TimedOut)))
            .await;
        let mut leases: BTreeMap<(Resource, Vec<u8>), Vec<NodeLock>> = BTreeMap::new();
        for lock in locks.into_iter().flatten() {
            leases.entry((lock.resource.clone(), lock.value.clone())).or_default().push(lock);
        }
        let turnout = nodes.turnout();
        let all = leases.into_values().filter_map(|locks| LockView::of(locks, turnout)).collect();
        Ok(LeaseList { all, turnout: Some(turnout), faults: nodes.faults() })
    }

    pub(crate) async fn of_service(service: &dyn Operator, glob: &WildMatch) -> Result<LeaseList, Failure> {
        let (mut after, mut list) = (None::<Resource>, LeaseList::default());
        loop {
            let page = with_timeout(service.leases(after.as_ref(), PAGE)).await?;
            let Some(last) = page.last() else { return Ok(list) };
            after = Some(last.resource.clone());
            let fits = |lease: &LeaseRecord| glob.matches(lease.resource.as_str());
            list.all.extend(page.into_iter().filter(fits).map(LockView::from));
        }
    }
}

impl LockView {
    fn of(mut locks: Vec<NodeLock>, turnout: Turnout) -> Option<LockView> {
        // It lasts for as long as it does on a majority.
        locks.sort_by_key(|lock| Reverse(lock.remaining.unwrap_or(Duration::MAX)));
        let (on, needed) = (locks.len(), turnout.needed);
        let held = (on >= needed || !turnout.may_be_held(on)).then_some(on >= needed);
        let remaining = locks.get(if on >= needed { needed - 1 } else { 0 })?.remaining;
        let mut tokens: Vec<Token> = locks.iter().filter_map(|lock| lock.token).collect();
        let (token, nodes) = (turnout.agreed(&mut tokens), Some(on));
        let NodeLock { resource, holder, shared, holders, .. } = locks.into_iter().next()?;
        Some(LockView { resource, holder, shared, holders, remaining, token, nodes, held })
    }

    pub(crate) fn columns(&self) -> [String; 5] {
        let none = || "-".to_owned();
        let holder = self.holder.as_ref();
        let name = holder.and_then(|holder| holder.name.clone()).unwrap_or_else(none);
        let shared = match self.holders {
            _ if !self.shared => String::new(),
            // No more than 100 of them are listed.
            holders @ 101.. => format!(" (one of {holders} that share it)"),
            _ => " (shared)".to_owned(),
        };
        [
            self.resource.to_string(),
            format!("{name}{shared}"),
            holder.and_then(|holder| holder.since_utc()).unwrap_or_else(none),
            self.remaining.map_or_else(|| "never".to_owned(), about),
            self.token.map_or_else(none, |token| token.to_string()),
        ]
    }
}

impl From<LeaseRecord> for LockView {
    fn from(lease: LeaseRecord) -> LockView {
        let LeaseRecord { resource, token, holder, shared, remaining, .. } = lease;
        let (token, holders, nodes, held) = (Some(token), 0, None, Some(true));
        LockView { resource, holder, shared, holders, remaining, token, nodes, held }
    }
}
