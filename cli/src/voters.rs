//! Locks on the nodes of one list, and leases in a database.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencing::lock::redlock::{self, Node, NodeLock, RedisNode};
use fencing::lock::sql::SqlLease;
use fencing::lock::{Fault, Holder};
use fencing::{Resource, Token};
use tokio::time::timeout;
use wildmatch::WildMatch;

use crate::exit::Failure;
use crate::findings;

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

/// The nodes of a list that answer and are admitted in it, each once. Others are in no majority of it: what they
/// know must not count.
pub(crate) struct Voters {
    pub(crate) nodes: Vec<(String, RedisNode)>,
    pub(crate) list: redlock::Fleet,
    pub(crate) needed: usize,
    pub(crate) size: usize,
    /// Why the others do not.
    pub(crate) faults: Vec<(String, Fault)>,
    /// Those that are quarantined: they may have forgotten locks.
    quarantined: BTreeSet<String>,
}

impl Voters {
    /// Asks the nodes how they stand.
    pub(crate) async fn of(
        urls: &[String],
        namespace: &str,
        budget: Duration,
    ) -> Result<Voters, Failure> {
        let findings = findings::ask(urls.iter().map(String::as_str), namespace, budget).await?;
        let (needed, size) = (findings.needed(), findings.nodes.len());
        let list = findings.fleet.clone();
        let (nodes, faults, quarantined) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut voters = Voters { nodes, list, needed, size, faults, quarantined };
        for (url, finding) in urls.iter().zip(findings.nodes) {
            match finding.problem.clone() {
                Some(problem) if !finding.is_counted(&voters.list) => {
                    voters.faults.push((finding.node, problem));
                }
                problem => {
                    let node = RedisNode::new(url, namespace)?;
                    if matches!(problem, Some(Fault::Quarantined(_))) {
                        voters.quarantined.insert(node.name().to_owned());
                    }
                    voters.nodes.push((node.name().to_owned(), node));
                }
            }
        }
        Ok(voters)
    }

    /// Returns how many answer, and have forgotten no lock that may still be held.
    pub(crate) fn remembering(&self) -> usize {
        let remembers = |(name, _): &&(String, RedisNode)| !self.quarantined.contains(name);
        self.nodes.iter().filter(remembers).count()
    }

    /// Returns whether a majority may have a lock that this many nodes have.
    pub(crate) fn may_be_held(&self, nodes: usize) -> bool {
        nodes + self.size.saturating_sub(self.remembering()) >= self.needed
    }

    /// Asks all of them at once, and returns what each has answered. Who does not answer is at fault.
    pub(crate) async fn each<T: Send + 'static, F>(
        &mut self,
        ask: impl Fn(RedisNode) -> F,
    ) -> Vec<T>
    where
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let asked: Vec<_> =
            self.nodes.iter().map(|(_, node)| tokio::spawn(ask(node.clone()))).collect();
        let (mut answers, mut silent) = (Vec::new(), Vec::new());
        for (answer, (name, _)) in asked.into_iter().zip(&self.nodes) {
            let gone = |error| Err(Fault::Disconnected(format!("not asked: {error}")));
            match answer.await.unwrap_or_else(gone) {
                Ok(answer) => answers.push(answer),
                Err(fault) => silent.push((name.clone(), fault)),
            }
        }
        self.nodes.retain(|(name, _)| silent.iter().all(|(other, _)| other != name));
        self.faults.append(&mut silent);
        answers
    }

    /// Reads the locks of this form on all nodes at once. Each of them may take `budget` for each step, and
    /// `longest` in all.
    pub(crate) async fn locks(
        &mut self,
        glob: &WildMatch,
        budget: Duration,
        longest: Duration,
    ) -> Vec<LockView> {
        let each = self.each(|node| {
            let glob = glob.clone();
            async move {
                let fits = move |resource: &Resource| glob.matches(resource.as_str());
                timeout(longest, node.locks(fits, budget)).await.unwrap_or(Err(Fault::TimedOut))
            }
        });
        let locks = each.await;
        self.together(locks)
    }

    /// Puts together what the nodes say of each lock.
    fn together(&self, locks: Vec<Vec<NodeLock>>) -> Vec<LockView> {
        let mut leases: BTreeMap<(Resource, Vec<u8>), Vec<NodeLock>> = BTreeMap::new();
        for lock in locks.into_iter().flatten() {
            leases.entry((lock.resource.clone(), lock.value.clone())).or_default().push(lock);
        }
        leases.into_values().filter_map(|locks| self.view(locks)).collect()
    }

    fn view(&self, mut locks: Vec<NodeLock>) -> Option<LockView> {
        // It lasts for as long as it does on a majority.
        let left = |lock: &NodeLock| lock.remaining.unwrap_or(Duration::MAX);
        locks.sort_by_key(|lock| std::cmp::Reverse(left(lock)));
        let (nodes, is_held) = (locks.len(), locks.len() >= self.needed);
        let last = if is_held { self.needed - 1 } else { 0 };
        let remaining = locks.get(last)?.remaining;
        let mut tokens: Vec<Token> = locks.iter().filter_map(|lock| lock.token).collect();
        tokens.sort_unstable();
        let mut of_most = tokens.chunk_by(Token::eq).filter(|same| same.len() >= self.needed);
        let token = of_most.next().and_then(|same| same.first().copied());
        let first = locks.into_iter().next()?;
        let NodeLock { resource, holder, shared, holders, .. } = first;
        let perhaps = !is_held && self.may_be_held(nodes);
        let nodes = Some(nodes);
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

impl From<SqlLease> for LockView {
    fn from(lease: SqlLease) -> LockView {
        let SqlLease { resource, token, holder, shared, remaining, .. } = lease;
        let (token, nodes, perhaps) = (Some(token), None, false);
        LockView {
            resource,
            holder,
            shared,
            holders: 0,
            remaining,
            token,
            nodes,
            is_held: true,
            perhaps,
        }
    }
}
