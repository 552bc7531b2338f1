//! The leases on the nodes of one list, or in a database.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use fencing::lock::redlock::NodeLock;
use fencing::lock::sql::{self, SqlLease};
use fencing::lock::{Fault, Holder};
use fencing::{Resource, Token};
use tokio::time::timeout;
use wildmatch::WildMatch;

use crate::duration::about;
use crate::exit::Failure;
use crate::place::{Chosen, Redis};
use crate::pool::{Pool, answer, connect, on};
use crate::voters::{Turnout, Voters};

const PAGE: u32 = 1000;

#[derive(Default)]
pub(crate) struct LeaseList {
    pub(crate) all: Vec<LockView>,
    /// The nodes that have listed theirs. `None` for a database.
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
    /// Whether a majority has it. `None` where nodes that do not answer, or that have forgotten locks, could make it one.
    pub(crate) held: Option<bool>,
}

impl LeaseList {
    /// Reads the leases of this form, on all nodes at once or in a database. Each node may take `budget` for each step,
    /// and `longest` in all.
    pub(crate) async fn of(
        place: &Chosen,
        glob: &WildMatch,
        budget: Duration,
        longest: Duration,
    ) -> Result<LeaseList, Failure> {
        match place {
            Chosen::Redis(redis) => LeaseList::on_nodes(redis, glob, budget, longest).await,
            Chosen::Database(url) => {
                LeaseList::in_database(&connect("--database", url, false, 1).await?, glob).await
            }
        }
    }

    async fn on_nodes(
        redis: &Redis,
        glob: &WildMatch,
        budget: Duration,
        longest: Duration,
    ) -> Result<LeaseList, Failure> {
        let mut voters = Voters::of(redis, budget).await?;
        let fits = |resource: &Resource| glob.matches(resource.as_str());
        let locks = voters
            .each(async |node| {
                timeout(longest, node.locks(fits, budget)).await.unwrap_or(Err(Fault::TimedOut))
            })
            .await;
        let mut leases: BTreeMap<(Resource, Vec<u8>), Vec<NodeLock>> = BTreeMap::new();
        for lock in locks.into_iter().flatten() {
            leases.entry((lock.resource.clone(), lock.value.clone())).or_default().push(lock);
        }
        let turnout = voters.turnout();
        let all = leases.into_values().filter_map(|locks| LockView::of(locks, turnout)).collect();
        Ok(LeaseList { all, turnout: Some(turnout), faults: voters.faults })
    }

    async fn in_database(pool: &Pool, glob: &WildMatch) -> Result<LeaseList, Failure> {
        let (mut after, mut list) = (None::<Resource>, LeaseList::default());
        loop {
            let page = on!(pool, pool => answer(sql::leases(pool, after.as_ref(), PAGE)).await)?;
            let Some(last) = page.last() else { return Ok(list) };
            after = Some(last.resource.clone());
            let fits = |lease: &SqlLease| glob.matches(lease.resource.as_str());
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

impl From<SqlLease> for LockView {
    fn from(lease: SqlLease) -> LockView {
        let SqlLease { resource, token, holder, shared, remaining, .. } = lease;
        let (token, holders, nodes, held) = (Some(token), 0, None, Some(true));
        LockView { resource, holder, shared, holders, remaining, token, nodes, held }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        Failure::unavailable(format_args!("the database: {fault}"))
    }
}
