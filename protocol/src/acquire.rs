use std::collections::VecDeque;
use std::time::Duration;

use super::message::{Reply, Request};
use super::{Attempt, Fault, Fleet, Mode, Nonce, Stamp, majority};
use crate::time::Time;
use crate::token::Token;

/// How one attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AcquireOutcome {
    /// A majority is published and there is time left.
    Won {
        /// The lease's token.
        token: Token,
        /// When the lease ends unless it is renewed.
        deadline: Time,
    },
    /// Enough nodes answered, and another owner holds the lock on too many of them.
    Held {
        /// When enough of the locks seen will have expired; zero if the vote was split.
        retry_after: Duration,
        /// Whether others share it, and the attempt would hold it alone.
        shared: bool,
    },
    /// Too few nodes gave a vote: the fault of each, by its number.
    NoQuorum {
        /// How many granted.
        granted: usize,
        /// Who did not, and why.
        faults: Vec<(usize, Fault)>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum NodeVote {
    Asked,
    Granted { stamp: Stamp, token: Token, nonce: Nonce },
    Publishing,
    Published,
    Held(Duration),
    Failed(Fault),
}

/// One attempt to acquire, as a state machine: protocol, "Acquire".
///
/// Feed it replies and send what [`next_request`](Acquire::next_request) says until
/// [`outcome`](Acquire::outcome) answers. If that is not `Won`, release everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acquire {
    attempt: Attempt,
    started: Time,
    nodes: Vec<NodeVote>,
    chosen: Option<Token>,
    shared: bool,
    outbox: VecDeque<(usize, Request)>,
}

impl Acquire {
    /// Starts an attempt over `nodes` nodes.
    #[must_use]
    pub fn new(nodes: usize, attempt: Attempt, now: Time) -> Acquire {
        let (resource, owner) = (attempt.resource.clone(), attempt.owner);
        let ttl = attempt.terms.closed_for();
        let ask = match attempt.mode {
            Mode::Exclusive => Request::Acquire { resource, owner, ttl },
            Mode::Shared => Request::Share { resource, owner, ttl },
        };
        Acquire {
            attempt,
            started: now,
            nodes: vec![NodeVote::Asked; nodes],
            chosen: None,
            shared: false,
            outbox: (0..nodes).map(|node| (node, ask.clone())).collect(),
        }
    }

    pub(super) fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// What to send next, and to which node.
    pub fn next_request(&mut self) -> Option<(usize, Request)> {
        self.outbox.pop_front()
    }

    /// Takes what a node answered, or why it did not.
    pub fn on_reply(&mut self, node: usize, reply: Result<Reply, Fault>) {
        let Some(standing) = self.nodes.get_mut(node) else { return };
        self.shared |= matches!(reply, Ok(Reply::Shared { .. }));
        match standing {
            NodeVote::Asked => *standing = NodeVote::of_grant(reply),
            NodeVote::Publishing => {
                *standing = match reply {
                    Ok(Reply::Published) => NodeVote::Published,
                    Ok(Reply::NotOwner) => NodeVote::Failed(Fault::TooLate),
                    other => NodeVote::Failed(fault_of(other)),
                }
            }
            // The network repeated an answer.
            _ => return,
        }
        self.choose();
        self.publish();
    }

    /// Reports whether the node has answered that another owner holds the lock: then the node
    /// holds nothing for this owner, and there is nothing to release.
    #[must_use]
    pub fn is_refused(&self, node: usize) -> bool {
        matches!(self.nodes.get(node), Some(NodeVote::Held(_)))
    }

    /// The token is the largest among the grants counted when a majority had granted.
    fn choose(&mut self) {
        if self.chosen.is_some() || self.granted() < majority(self.nodes.len()) {
            return;
        }
        self.chosen = self.nodes.iter().filter_map(NodeVote::token).max();
    }

    /// A grant equal to the token is published; one below it is sent the token; one
    /// above it came too late and must not count.
    fn publish(&mut self) {
        let Some(chosen) = self.chosen else { return };
        for (node, standing) in self.nodes.iter_mut().enumerate() {
            let NodeVote::Granted { token, nonce, .. } = *standing else { continue };
            *standing = match token.cmp(&chosen) {
                std::cmp::Ordering::Equal => NodeVote::Published,
                std::cmp::Ordering::Greater => NodeVote::Failed(Fault::TooLate),
                std::cmp::Ordering::Less => {
                    let request = Request::Publish {
                        resource: self.attempt.resource.clone(),
                        owner: self.attempt.owner,
                        nonce,
                        token: chosen,
                    };
                    self.outbox.push_back((node, request));
                    NodeVote::Publishing
                }
            };
        }
    }

    fn count(&self, which: impl Fn(&NodeVote) -> bool) -> usize {
        self.nodes.iter().filter(|standing| which(standing)).count()
    }

    fn granted(&self) -> usize {
        self.count(|standing| {
            matches!(
                standing,
                NodeVote::Granted { .. } | NodeVote::Publishing | NodeVote::Published
            )
        })
    }

    /// How the attempt ended, as soon as no further reply can change it.
    #[must_use]
    pub fn outcome(&self, now: Time) -> Option<AcquireOutcome> {
        let needed = majority(self.nodes.len());
        let deadline = self.attempt.terms.deadline(self.started);
        let published = self.count(|standing| *standing == NodeVote::Published);
        if let Some(token) = self.chosen
            && published >= needed
            && now < deadline
        {
            return Some(AcquireOutcome::Won { token, deadline });
        }
        let open = self.count(|standing| *standing == NodeVote::Asked);
        if self.granted() + open >= needed && now < deadline {
            return None;
        }
        // Lost. Whether somebody else holds it may hang on nodes that have not answered.
        let faults = self.count(|standing| matches!(standing, NodeVote::Failed(_)));
        let voted = self.nodes.len() - faults - open;
        if voted >= needed && now < deadline {
            let (retry_after, shared) = (self.retry_after(needed), self.shared);
            return Some(AcquireOutcome::Held { retry_after, shared });
        }
        (open == 0 || faults > self.nodes.len() - needed || now >= deadline)
            .then(|| self.no_quorum(now >= deadline))
    }

    fn retry_after(&self, needed: usize) -> Duration {
        let mut held: Vec<Duration> = self
            .nodes
            .iter()
            .filter_map(|standing| match standing {
                NodeVote::Held(remaining) => Some(*remaining),
                _ => None,
            })
            .collect();
        held.sort_unstable();
        let missing = needed.saturating_sub(self.granted());
        missing.checked_sub(1).and_then(|last| held.get(last).copied()).unwrap_or_default()
    }

    fn no_quorum(&self, late: bool) -> AcquireOutcome {
        let fault = |standing: &NodeVote| match standing {
            NodeVote::Failed(fault) => Some(fault.clone()),
            // Not needed any more to tell that it is lost, which is no fault of theirs.
            NodeVote::Asked | NodeVote::Held(_) => None,
            // A grant is at fault only when time is up.
            _ => late.then_some(Fault::TooLate),
        };
        let faults = self.nodes.iter().enumerate();
        let faults = faults.filter_map(|(node, standing)| Some((node, fault(standing)?))).collect();
        AcquireOutcome::NoQuorum { granted: self.granted(), faults }
    }
}

impl NodeVote {
    fn of_grant(reply: Result<Reply, Fault>) -> NodeVote {
        match reply {
            Ok(Reply::Granted { stamp, nonce, .. }) => match stamp.token() {
                Some(token) => NodeVote::Granted { stamp, token, nonce },
                None => NodeVote::Failed(Fault::Nonsense(format!("{stamp:?}"))),
            },
            Ok(Reply::Held { remaining, .. } | Reply::Shared { remaining, .. }) => {
                NodeVote::Held(remaining)
            }
            other => NodeVote::Failed(fault_of(other)),
        }
    }

    fn token(&self) -> Option<Token> {
        match self {
            NodeVote::Granted { token, .. } => Some(*token),
            _ => None,
        }
    }
}

/// The fault that a reply amounts to where it was not asked for.
pub fn fault_of(reply: Result<Reply, Fault>) -> Fault {
    match reply {
        Err(fault) => fault,
        Ok(Reply::NotAdmitted) => Fault::NotAdmitted,
        Ok(Reply::OtherFleet(fleet)) => Fault::OtherFleet { members: names(&fleet) },
        Ok(Reply::Moved(fleet)) => Fault::Moved { to: names(&fleet) },
        Ok(Reply::Quarantined { remaining }) => Fault::Quarantined(remaining),
        Ok(Reply::Exhausted) => Fault::Exhausted,
        // As many as a server likes.
        Ok(Reply::Several(_)) => Fault::Nonsense("several answers".into()),
        Ok(other) => Fault::Nonsense(format!("{other:?}")),
    }
}

fn names(fleet: &Fleet) -> Vec<String> {
    fleet.members().map(str::to_owned).collect()
}
