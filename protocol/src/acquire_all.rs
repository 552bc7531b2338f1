use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use nonempty::NonEmpty;

use super::message::{Reply, Request};
use super::{Acquire, AcquireOutcome, Attempt, Fault};
use crate::time::Time;
use crate::token::Token;

/// An attempt that has acquired all of its resources, with time left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Won {
    /// The locks, in the order of the attempt, each with its token.
    pub locks: NonEmpty<(Attempt, Token)>,
    /// When the lease ends unless it is renewed.
    pub deadline: Time,
}

/// Why an attempt has acquired none of its resources.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Lost {
    /// Enough nodes answered, and another owner holds one of the locks on too many of them.
    Held {
        /// Which of the resources: the one that is held for longest.
        part: usize,
        /// When enough of its locks seen will have expired; zero if the vote was split.
        retry_after: Duration,
        /// Whether others share it, and the attempt would hold it alone.
        shared: bool,
    },
    /// Too few nodes gave a vote: the fault of each, by its number.
    NoQuorum {
        /// How many granted.
        granted: usize,
        /// The nodes that did not, and why.
        faults: Vec<(usize, Fault)>,
    },
}

/// One attempt to acquire one resource, or several together: protocol, "Several at once".
///
/// Each resource is an [`Acquire`] of its own, with votes and a token of its own. What they have for
/// one node goes there as one request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AcquireAll {
    parts: NonEmpty<Acquire>,
    nodes: Vec<Waits>,
    outbox: VecDeque<(usize, Request)>,
}

/// What is awaited from a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Waits {
    /// The resources of the request that it has not answered yet, in their order.
    parts: Vec<usize>,
    /// Whether it has answered the first request.
    voted: bool,
}

impl AcquireAll {
    /// Starts an attempt over `nodes` nodes, of one owner for different resources.
    #[must_use]
    pub fn new(nodes: usize, attempts: NonEmpty<Attempt>, now: Time) -> AcquireAll {
        let mut all = AcquireAll {
            parts: attempts.map(|attempt| Acquire::new(nodes, attempt, now)),
            nodes: vec![Waits::default(); nodes],
            outbox: VecDeque::new(),
        };
        all.gather();
        all
    }

    /// What to send next, and to which node.
    pub fn next_request(&mut self) -> Option<(usize, Request)> {
        self.outbox.pop_front()
    }

    /// Takes what a node answered, or why it did not.
    pub fn on_reply(&mut self, node: usize, reply: Result<Reply, Fault>) {
        let Some(waits) = self.nodes.get_mut(node) else { return };
        let awaited = std::mem::take(&mut waits.parts);
        let is_vote = !std::mem::replace(&mut waits.voted, true);
        let replies = Reply::apart(reply, awaited.len());
        let replies = if is_vote { votes(replies) } else { replies };
        for (part, reply) in awaited.into_iter().zip(replies) {
            if let Some(part) = self.parts.get_mut(part) {
                part.on_reply(node, reply);
            }
        }
        self.gather();
    }

    /// Puts what the resources have for one node into one request.
    fn gather(&mut self) {
        let mut requests = vec![Vec::new(); self.nodes.len()];
        for (number, part) in self.parts.iter_mut().enumerate() {
            while let Some((node, request)) = part.next_request() {
                if let Some(waits) = self.nodes.get_mut(node)
                    && let Some(requests) = requests.get_mut(node)
                {
                    waits.parts.push(number);
                    requests.push(request);
                }
            }
        }
        for (node, requests) in requests.into_iter().enumerate() {
            if !requests.is_empty() {
                self.outbox.push_back((node, Request::together(requests)));
            }
        }
    }

    /// Reports whether the node has answered that other owners hold all of the locks: then the node
    /// holds nothing for this owner, and there is nothing to release.
    #[must_use]
    pub fn is_refused(&self, node: usize) -> bool {
        self.parts.iter().all(|part| part.is_refused(node))
    }

    /// How the attempt ended, as soon as no further reply can change it. It is won when each
    /// resource is, and lost when one is.
    #[must_use]
    pub fn outcome(&self, now: Time) -> Option<Result<Won, Lost>> {
        let (mut locks, mut end, mut held) = (Vec::new(), None, None);
        for (number, part) in self.parts.iter().enumerate() {
            match part.outcome(now) {
                Some(AcquireOutcome::Won { token, deadline }) => {
                    locks.push((part.attempt().clone(), token));
                    end = Some(end.map_or(deadline, |end: Time| end.min(deadline)));
                }
                Some(AcquireOutcome::Held { retry_after, shared }) => {
                    held = held.max(Some((retry_after, Reverse(number), shared)));
                }
                Some(AcquireOutcome::NoQuorum { granted, faults }) => {
                    return Some(Err(Lost::NoQuorum { granted, faults }));
                }
                None => {}
            }
        }
        if let Some((retry_after, Reverse(part), shared)) = held {
            return Some(Err(Lost::Held { part, retry_after, shared }));
        }
        let deadline = end.filter(|_| locks.len() == self.parts.len())?;
        Some(Ok(Won { locks: NonEmpty::from_vec(locks)?, deadline }))
    }
}

/// Reads a node's vote for each resource. A node grants all or none: grants beside anything else
/// count for nothing, or the resources would be won by different nodes.
fn votes(replies: Vec<Result<Reply, Fault>>) -> Vec<Result<Reply, Fault>> {
    let granted = |reply: &Result<Reply, Fault>| matches!(reply, Ok(Reply::Granted { stamp, .. }) if stamp.token().is_some());
    let grants = replies.iter().filter(|reply| granted(reply)).count();
    if grants > 0 && grants < replies.len() {
        let nonsense = || Err(Fault::Nonsense("granted a part of what was asked for".into()));
        return replies.iter().map(|_| nonsense()).collect();
    }
    let vote = |reply| match reply {
        Ok(Reply::Free) => Ok(Reply::Held { remaining: Duration::ZERO, holder: None }),
        other => other,
    };
    replies.into_iter().map(vote).collect()
}
