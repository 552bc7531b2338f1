//! Locks on the nodes of one list, and leases in a database.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use fencing::lock::redlock::{Fleet, Node, NodeLock, RedisNode};
use fencing::lock::sql::SqlLease;
use fencing::lock::{Fault, Holder};
use fencing::{Resource, Token};
use futures_util::future::join_all;
use tokio::time::timeout;
use wildmatch::WildMatch;

use crate::duration::about;
use crate::exit::Failure;
use crate::place::Redis;
use crate::{findings, say};

/// A lock as its nodes, or its database, see it.
pub(crate) struct LockView {
    pub(crate) resource: Resource,
    pub(crate) holder: Option<Holder>,
    pub(crate) shared: bool,
    /// How many share it on one node; 0 if that is not known.
    pub(crate) holders: u64,
    /// How long until it ends by itself; `None` if never.
    pub(crate) remaining: Option<Duration>,
    pub(crate) token: Option<Token>,
    /// How many nodes have it.
    pub(crate) nodes: Option<usize>,
    pub(crate) is_held: bool,
    /// Whether nodes that do not answer, or that have forgotten locks, could make it a majority.
    pub(crate) perhaps: bool,
}

impl LockView {
    /// The resource, its holder, since when, for how long still, and the token, for people.
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
        let (token, holders, nodes, is_held, perhaps) = (Some(token), 0, None, true, false);
        LockView { resource, holder, shared, holders, remaining, token, nodes, is_held, perhaps }
    }
}

/// The nodes of a list that answer and are admitted in it, each once. Others are in no majority of it: what they
/// know must not count.
pub(crate) struct Voters {
    pub(crate) nodes: Vec<Voter>,
    pub(crate) list: Fleet,
    /// Why the others do not.
    pub(crate) faults: Vec<(String, Fault)>,
}

pub(crate) struct Voter {
    node: RedisNode,
    /// Whether it has forgotten no lock that may still be held.
    remembers: bool,
}

impl Voter {
    pub(crate) fn name(&self) -> &str {
        self.node.name()
    }
}

impl Voters {
    /// Asks the nodes for their state.
    pub(crate) async fn of(redis: &Redis, budget: Duration) -> Result<Voters, Failure> {
        let findings = findings::ask(redis, budget).await?;
        let (mut nodes, mut faults, list) = (Vec::new(), Vec::new(), findings.fleet);
        for (node, finding) in redis.nodes()?.into_iter().zip(findings.nodes) {
            let counted = finding.is_counted(&list);
            match finding.problem {
                Some(problem) if !counted => faults.push((finding.node, problem)),
                problem => {
                    let remembers = !matches!(problem, Some(Fault::Quarantined(_)));
                    nodes.push(Voter { node, remembers });
                }
            }
        }
        Ok(Voters { nodes, list, faults })
    }

    /// How many nodes are in the list.
    pub(crate) fn size(&self) -> usize {
        self.list.members().count()
    }

    /// How many of them are a majority.
    pub(crate) fn needed(&self) -> usize {
        self.list.majority()
    }

    /// Returns how many answer, and have forgotten no lock that may still be held.
    pub(crate) fn remembering(&self) -> usize {
        self.nodes.iter().filter(|voter| voter.remembers).count()
    }

    /// Returns whether a majority may have a lock that this many nodes have.
    pub(crate) fn may_be_held(&self, nodes: usize) -> bool {
        nodes + self.size().saturating_sub(self.remembering()) >= self.needed()
    }

    /// Sorts what nodes say, and returns the token that a majority of the list knows.
    pub(crate) fn agreed(&self, tokens: &mut [Token]) -> Option<Token> {
        tokens.sort_unstable();
        let mut agreed = tokens.chunk_by(Token::eq).filter(|same| same.len() >= self.needed());
        agreed.next()?.first().copied()
    }

    /// Fails if they are no majority of the list, with what that means.
    pub(crate) fn check_majority(&self, so: &str) -> Result<(), Failure> {
        let (answered, size) = (self.nodes.len(), self.size());
        if answered >= self.needed() {
            return Ok(());
        }
        Err(Failure::unavailable(format_args!(
            "{answered} of {size} nodes answered as nodes of this list: not a majority, so {so}"
        )))
    }

    /// Says why the others do not count.
    pub(crate) fn print_faults(&self) {
        for (node, fault) in &self.faults {
            say::error(format_args!("{node}: {fault}"));
        }
    }

    /// Asks all of them at once, and returns what each has answered. A node that does not answer is at fault.
    pub(crate) async fn each<T>(
        &mut self,
        ask: impl AsyncFn(&RedisNode) -> Result<T, Fault>,
    ) -> Vec<T> {
        let answers = join_all(self.nodes.iter().map(|voter| ask(&voter.node))).await;
        let (mut heard, mut voters) = (Vec::new(), Vec::new());
        for (answer, voter) in answers.into_iter().zip(self.nodes.drain(..)) {
            match answer {
                Ok(answer) => {
                    heard.push(answer);
                    voters.push(voter);
                }
                Err(fault) => self.faults.push((voter.name().to_owned(), fault)),
            }
        }
        self.nodes = voters;
        heard
    }

    /// Reads the locks of this form on all nodes at once. Each of them may take `budget` for each step, and
    /// `longest` in all.
    pub(crate) async fn locks(
        &mut self,
        glob: &WildMatch,
        budget: Duration,
        longest: Duration,
    ) -> Vec<LockView> {
        let fits = |resource: &Resource| glob.matches(resource.as_str());
        let locks = self
            .each(async |node| {
                timeout(longest, node.locks(fits, budget)).await.unwrap_or(Err(Fault::TimedOut))
            })
            .await;
        let mut leases: BTreeMap<(Resource, Vec<u8>), Vec<NodeLock>> = BTreeMap::new();
        for lock in locks.into_iter().flatten() {
            leases.entry((lock.resource.clone(), lock.value.clone())).or_default().push(lock);
        }
        leases.into_values().filter_map(|locks| self.view(locks)).collect()
    }

    /// Puts together what the nodes say of one lock.
    fn view(&self, mut locks: Vec<NodeLock>) -> Option<LockView> {
        // It lasts for as long as it does on a majority.
        locks.sort_by_key(|lock| Reverse(lock.remaining.unwrap_or(Duration::MAX)));
        let (on, needed) = (locks.len(), self.needed());
        let is_held = on >= needed;
        let remaining = locks.get(if is_held { needed - 1 } else { 0 })?.remaining;
        let token =
            self.agreed(&mut locks.iter().filter_map(|lock| lock.token).collect::<Vec<_>>());
        let NodeLock { resource, holder, shared, holders, .. } = locks.into_iter().next()?;
        let (nodes, perhaps) = (Some(on), !is_held && self.may_be_held(on));
        Some(LockView {
            resource,
            holder,
            shared,
            holders,
            remaining,
            token,
            nodes,
            is_held,
            perhaps,
        })
    }
}
