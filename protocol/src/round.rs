use std::collections::VecDeque;
use std::time::Duration;

use super::machine::Address;
use super::message::{NodeState, Reply, Request, fault_of};
use super::{Fault, Nonce, Stamp, majority};

/// The order for the start of a fleet, or for a re-admission, which may become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StartOrder {
    /// 128 fresh random bits.
    pub nonce: Nonce,
    /// The longest TTL that this client uses, lock delay included.
    pub longest: Duration,
    /// Whether to refuse a start that depends on clocks, unless `assume_no_locks`.
    pub strict: bool,
    /// Whether an operator has declared that no lock can be held if all nodes are blank.
    pub assume_no_locks: bool,
}

/// The result of a re-admission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Readmitted {
    /// The rest of its quarantine.
    pub quarantine: Duration,
    /// Whether it is the whole fleet, and not one node.
    pub fleet: bool,
}

/// Why a node was not re-admitted, or a fleet not started. Any client may try again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReadmitError {
    /// These nodes did not answer, or refused.
    #[error("a required node did not answer, or refused; try again")]
    Missing(Vec<(usize, Fault)>),
    /// Too few nodes remember. A new start needs every node to answer, and these did not.
    #[error("too few nodes remember, and a new start needs an answer from every node")]
    NotStarted(Vec<(usize, Fault)>),
    /// Too few nodes remember, and `strict` forbids a start that depends on clocks.
    #[error("too few nodes remember, and `strict` leaves a new start to an operator")]
    Strict,
    /// This node belongs to another fleet.
    #[error("{1}")]
    Elsewhere(usize, Fault),
    /// No era is left.
    #[error("no era is left: the largest one is in use")]
    NoEra,
    /// Counts are not collected in an era that the node's clock has not reached: after a loss of
    /// all nodes the clocks must be ahead of every era in use.
    #[error("counts are not collected yet: era {era} is ahead of the node's clock ({clock}); try later")]
    AheadOfClock {
        /// The era that would begin.
        era: u64,
        /// The node's clock as an era.
        clock: u64,
    },
    /// Something changed meanwhile: try again.
    #[error("superseded by another re-admission, or a node lost its state; try again")]
    Overtaken,
}

/// The state of each node that has shown it.
pub(super) type States = Vec<Option<NodeState>>;

/// One question to some nodes, and their answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Round {
    /// It distinguishes late answers of an earlier round. The next round has the next number.
    pub(super) number: u8,
    /// By node: `None` where no answer is awaited, or it has not come yet.
    replies: Vec<Option<Result<Reply, Fault>>>,
    awaited: usize,
    outbox: VecDeque<(usize, Request)>,
}

impl Round {
    /// Starts with a round that has asked all of `nodes` nodes.
    pub(super) fn new(nodes: usize) -> Round {
        Round { number: 0, replies: vec![None; nodes], awaited: nodes, outbox: VecDeque::new() }
    }

    pub(super) fn has(&self, node: usize, reply: &Reply) -> bool {
        matches!(self.replies.get(node), Some(Some(Ok(it))) if it == reply)
    }

    pub(super) fn nodes(&self) -> usize {
        self.replies.len()
    }

    pub(super) fn majority(&self) -> usize {
        majority(self.nodes())
    }

    /// Begins the next round. Answers to the one before do not count any more.
    pub(super) fn ask(&mut self, requests: impl IntoIterator<Item = (usize, Request)>) {
        self.number += 1;
        self.replies.fill(None);
        self.outbox = requests.into_iter().collect();
        self.awaited = self.outbox.len();
    }

    pub(super) fn ask_those(&mut self, request: &Request, which: impl Fn(usize) -> bool) {
        let nodes = (0..self.nodes()).filter(|node| which(*node));
        self.ask(nodes.map(|node| (node, request.clone())).collect::<Vec<_>>());
    }

    pub(super) fn next_request(&mut self) -> Option<(Address, Request)> {
        let (node, request) = self.outbox.pop_front()?;
        Some((Address { phase: self.number, ..node.into() }, request))
    }

    /// Reports whether the round has not asked yet.
    pub(super) fn is_unsent(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Takes an answer. Returns whether it was awaited.
    pub(super) fn take(&mut self, from: Address, reply: Result<Reply, Fault>) -> bool {
        match self.replies.get_mut(from.node) {
            Some(slot @ None) if from.phase == self.number => *slot = Some(reply),
            _ => return false,
        }
        self.awaited = self.awaited.saturating_sub(1);
        true
    }

    pub(super) fn is_over(&self) -> bool {
        self.awaited == 0
    }

    /// Returns what `read` takes from each answer, by node.
    pub(super) fn each<T>(&self, read: impl Fn(&Reply) -> Option<T>) -> Vec<Option<T>> {
        let answers = self.replies.iter().map(|reply| reply.as_ref()?.as_ref().ok());
        answers.map(|answer| answer.and_then(&read)).collect()
    }

    /// Returns these answers, if a majority has given one.
    pub(super) fn of_majority<T>(&self, answers: Vec<Option<T>>) -> Option<Vec<Option<T>>> {
        (answers.iter().flatten().count() >= self.majority()).then_some(answers)
    }

    /// Returns the states of the nodes whose memory is the same as before and that know of `era`, if they are a
    /// majority. What they had answered before was true of all of them when this round began: the earlier answers come
    /// from different moments, and a node may have forgotten since.
    pub(super) fn unchanged<T>(
        &self,
        before: &[Option<T>],
        era: u64,
        is_same: impl Fn(&T, &NodeState) -> bool,
    ) -> Option<States> {
        let unchanged = |(before, now): (&Option<T>, Option<NodeState>)| {
            let (before, now) = (before.as_ref()?, now?);
            (is_same(before, &now) && now.highest() >= era).then_some(now)
        };
        self.of_majority(before.iter().zip(self.each(Reply::state)).map(unchanged).collect())
    }

    pub(super) fn count(&self, fits: impl Fn(&Reply) -> bool) -> usize {
        self.replies.iter().flatten().flatten().filter(|reply| fits(reply)).count()
    }

    /// Returns the nodes whose answers do not fit, and why.
    pub(super) fn faults(&self, fits: impl Fn(&Reply) -> bool) -> Vec<(usize, Fault)> {
        let fault = |(node, reply): (usize, &Option<Result<Reply, Fault>>)| match reply {
            Some(Ok(reply)) if fits(reply) => None,
            Some(reply) => Some((node, fault_of(reply.clone()))),
            None => None,
        };
        self.replies.iter().enumerate().filter_map(fault).collect()
    }

    /// Returns the first node that belongs to another fleet, if its answer does not fit.
    pub(super) fn elsewhere(&self, fits: impl Fn(&Reply) -> bool) -> Option<(usize, Fault)> {
        self.faults(fits).into_iter().find(|(_, fault)| fault.is_elsewhere())
    }

    /// Returns why the step that needs these answers can't be taken.
    pub(super) fn failure(
        &self,
        fits: impl Fn(&Reply) -> bool,
        missing: impl FnOnce(Vec<(usize, Fault)>) -> ReadmitError,
    ) -> ReadmitError {
        match (self.elsewhere(&fits), self.faults(fits)) {
            (Some((node, fault)), _) => ReadmitError::Elsewhere(node, fault),
            (None, faults) if faults.is_empty() => ReadmitError::Overtaken,
            (None, faults) => missing(faults),
        }
    }
}

pub(super) fn era_after(known: impl IntoIterator<Item = u64>) -> Result<u64, ReadmitError> {
    let era = known.into_iter().max().unwrap_or(0).saturating_add(1);
    if era > Stamp::MAX_ERA { Err(ReadmitError::NoEra) } else { Ok(era) }
}

/// Returns how long a lock that these nodes know of may still be held.
pub(super) fn longest(states: &[Option<NodeState>]) -> Duration {
    states.iter().flatten().map(|state| state.longest).max().unwrap_or_default()
}
