use std::collections::VecDeque;

use super::Fault;
use super::acquire::fault_of;
use super::message::{Reply, Request};

/// One question to some nodes, and what they answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Round {
    /// How many rounds there were: it tells late answers of an earlier round apart.
    number: u8,
    /// By node: `None` where no answer is awaited, or it has not come yet.
    replies: Vec<Option<Result<Reply, Fault>>>,
    awaited: usize,
    outbox: VecDeque<(usize, Request)>,
}

impl Round {
    pub(super) fn new(nodes: usize) -> Round {
        Round { number: 0, replies: vec![None; nodes], awaited: 0, outbox: VecDeque::new() }
    }

    pub(super) fn nodes(&self) -> usize {
        self.replies.len()
    }

    pub(super) fn number(&self) -> u8 {
        self.number
    }

    /// Begins the next round. Answers to the one before do not count any more.
    pub(super) fn ask(&mut self, requests: impl IntoIterator<Item = (usize, Request)>) {
        self.number += 1;
        self.replies.fill(None);
        self.outbox = requests.into_iter().collect();
        self.awaited = self.outbox.len();
    }

    /// Asks each node the same, except `besides`.
    pub(super) fn ask_all(&mut self, request: &Request, besides: Option<usize>) {
        let nodes = (0..self.nodes()).filter(|node| Some(*node) != besides);
        self.ask(nodes.map(|node| (node, request.clone())).collect::<Vec<_>>());
    }

    pub(super) fn next_request(&mut self) -> Option<(usize, Request)> {
        self.outbox.pop_front()
    }

    /// Takes an answer to the round of this number. Returns whether it was awaited.
    pub(super) fn take(&mut self, number: u8, node: usize, reply: Result<Reply, Fault>) -> bool {
        match self.replies.get_mut(node) {
            Some(slot @ None) if number == self.number => *slot = Some(reply),
            _ => return false,
        }
        self.awaited = self.awaited.saturating_sub(1);
        true
    }

    /// Returns whether every answer has come.
    pub(super) fn is_over(&self) -> bool {
        self.awaited == 0
    }

    pub(super) fn reply(&self, node: usize) -> Option<&Result<Reply, Fault>> {
        self.replies.get(node)?.as_ref()
    }

    /// Returns what `read` takes from each answer, by node.
    pub(super) fn each<T>(&self, read: impl Fn(&Reply) -> Option<T>) -> Vec<Option<T>> {
        let answer = |reply: &Option<Result<Reply, Fault>>| match reply {
            Some(Ok(reply)) => read(reply),
            _ => None,
        };
        self.replies.iter().map(answer).collect()
    }

    /// Returns the nodes that `read` takes nothing from, and why each gave nothing.
    pub(super) fn faults<T>(&self, read: impl Fn(&Reply) -> Option<T>) -> Vec<(usize, Fault)> {
        let fault = |reply: &Option<Result<Reply, Fault>>| match reply {
            Some(Ok(reply)) if read(reply).is_some() => None,
            Some(reply) => Some(fault_of(reply.clone())),
            None => None,
        };
        let replies = self.replies.iter().enumerate();
        replies.filter_map(|(node, reply)| Some((node, fault(reply)?))).collect()
    }

    /// Returns the first node that belongs to another fleet, and which one that is.
    pub(super) fn elsewhere(&self) -> Option<(usize, Fault)> {
        self.replies.iter().enumerate().find_map(|(node, reply)| match reply {
            Some(reply @ Ok(Reply::OtherFleet(_) | Reply::Moved(_))) => {
                Some((node, fault_of(reply.clone())))
            }
            _ => None,
        })
    }
}
