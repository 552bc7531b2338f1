use std::mem;
use std::time::Duration;

use fencing::Token;
use fencing::lock::Fault;
use fencing::lock::redlock::{Fleet, RedisNode};
use futures_util::future::join_all;

use crate::exit::Failure;
use crate::findings::{Finding, Findings, ask};
use crate::place::Redis;
use crate::say;

/// The nodes of a list that answer and are admitted in it, each once. Only they count towards its majority.
pub(crate) struct Voters {
    pub(crate) nodes: Vec<Finding>,
    pub(crate) list: Fleet,
    /// The faults of the others.
    pub(crate) faults: Vec<(String, Fault)>,
}

#[derive(Clone, Copy)]
pub(crate) struct Turnout {
    pub(crate) answered: usize,
    /// Number of nodes that answer, and have forgotten no lock that may still be held.
    pub(crate) remember: usize,
    pub(crate) needed: usize,
    pub(crate) size: usize,
}

impl Voters {
    pub(crate) async fn of(redis: &Redis, budget: Duration) -> Result<Voters, Failure> {
        let Findings { nodes, fleet: list, .. } = ask(redis, budget).await?;
        let (nodes, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|node| node.is_counted(&list));
        let faults = others.into_iter().filter_map(|other| Some((other.node, other.problem?)));
        Ok(Voters { nodes, faults: faults.collect(), list })
    }

    pub(crate) fn turnout(&self) -> Turnout {
        Turnout {
            answered: self.nodes.len(),
            remember: self.nodes.iter().filter(|node| node.quarantine().is_none()).count(),
            needed: self.list.majority(),
            size: self.list.members().count(),
        }
    }

    /// Asks all of them at once, and returns what each has answered. A node that does not answer is at fault.
    pub(crate) async fn each<T>(&mut self, ask: impl AsyncFn(&RedisNode) -> Result<T, Fault>) -> Vec<T> {
        let answers = join_all(self.nodes.iter().map(|voter| ask(&voter.server))).await;
        let mut heard = Vec::new();
        for (voter, answer) in mem::take(&mut self.nodes).into_iter().zip(answers) {
            match answer {
                Ok(answer) => {
                    heard.push(answer);
                    self.nodes.push(voter);
                }
                Err(fault) => self.faults.push((voter.node, fault)),
            }
        }
        heard
    }
}

impl Turnout {
    /// Returns whether a majority may have a lock that this many nodes have.
    pub(crate) fn may_be_held(self, nodes: usize) -> bool {
        nodes + self.size.saturating_sub(self.remember) >= self.needed
    }

    /// Sorts what nodes say, and returns the token that a majority of the list knows.
    pub(crate) fn agreed(self, tokens: &mut [Token]) -> Option<Token> {
        tokens.sort_unstable();
        let mut agreed = tokens.chunk_by(Token::eq).filter(|same| same.len() >= self.needed);
        agreed.next()?.first().copied()
    }

    pub(crate) fn check_majority(self, so: &str) -> Result<(), Failure> {
        let Turnout { answered, needed, size, .. } = self;
        if answered >= needed {
            return Ok(());
        }
        Err(Failure::unavailable(format_args!(
            "{answered} of {size} nodes answered as nodes of this list: not a majority, so {so}"
        )))
    }
}

pub(crate) fn print_faults(faults: &[(String, Fault)]) {
    faults.iter().for_each(|(node, fault)| say::error(format_args!("{node}: {fault}")));
}
