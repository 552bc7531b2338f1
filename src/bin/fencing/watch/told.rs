//! What is told of nodes, leases, marks and processes.

use std::collections::BTreeMap;
use std::time::Duration;

use fencing::lock::Fault;
use fencing::{Resource, Token};

use super::exposition::Process;
use crate::findings::{Finding, Findings};
use crate::standing::Standing;

/// What one of those who are asked has told, or why it has not.
#[derive(Debug)]
pub(super) enum Told {
    Nodes(Nodes),
    Leases(Result<Leases, String>),
    Marks(Result<Marks, String>),
    /// With its place in the list of processes.
    Process(usize, Result<Process, String>),
    /// That what it was given is wrong, and will never do.
    Wrong(String),
}

#[derive(Debug, Clone)]
pub(super) struct Nodes {
    pub(super) all: Vec<Node>,
    pub(super) needed: usize,
    /// In what time a majority grants.
    pub(super) opens_in: Option<Duration>,
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) state: State,
    pub(super) era: Option<u64>,
    pub(super) counts: Option<u64>,
}

/// Whether a node grants locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Grants,
    /// For how long still; `None` if that never ends.
    Quarantined(Option<Duration>),
    /// It answers, and grants nothing.
    Closed(String),
    Silent(String),
}

impl State {
    pub(super) fn word(&self) -> &'static str {
        match self {
            State::Grants => "grants",
            State::Quarantined(_) => "QUARANTINED",
            State::Closed(_) => "CLOSED",
            State::Silent(_) => "NO ANSWER",
        }
    }
}

/// The leases that were listed.
#[derive(Debug, Clone, Default)]
pub(super) struct Leases {
    pub(super) all: Vec<Lease>,
    /// How many nodes have answered, are needed, and are in the list. `None` for a database.
    pub(super) nodes: Option<(usize, usize, usize)>,
    /// Which nodes have not listed theirs, and why.
    pub(super) faults: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
pub(super) struct Lease {
    pub(super) resource: Resource,
    pub(super) holder: Option<String>,
    pub(super) since: Option<String>,
    pub(super) remaining: Option<Duration>,
    pub(super) token: Option<Token>,
    pub(super) shared: bool,
    pub(super) nodes: Option<usize>,
    pub(super) is_held: bool,
}

/// The marks of a storage.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    /// How many there are, and whether there are more.
    pub(super) count: u64,
    pub(super) more: bool,
    pub(super) floor: Option<Token>,
    /// That the marks are closed, and everything is refused.
    pub(super) closed: bool,
    /// Those of the resources that were asked for.
    pub(super) of: BTreeMap<Resource, Option<Token>>,
}

impl From<&Findings> for Nodes {
    fn from(findings: &Findings) -> Nodes {
        let all = findings.nodes.iter().map(Node::from).collect();
        Nodes { all, needed: findings.needed(), opens_in: findings.opens_in() }
    }
}

impl Nodes {
    pub(super) fn granting(&self) -> usize {
        self.all.iter().filter(|node| node.state == State::Grants).count()
    }
}

impl From<&Finding> for Node {
    fn from(finding: &Finding) -> Node {
        let report = finding.report.as_ref().ok();
        let state = match (&finding.report, &finding.problem) {
            (_, None) => State::Grants,
            (_, Some(Fault::Quarantined(left))) => {
                State::Quarantined(Some(*left).filter(|left| *left < Duration::MAX))
            }
            (Ok(_), Some(fault)) => State::Closed(fault.to_string()),
            (Err(fault), _) => match fault {
                Fault::Unreachable(_) | Fault::TimedOut | Fault::Disconnected(_) => {
                    State::Silent(fault.to_string())
                }
                fault => State::Closed(fault.to_string()),
            },
        };
        Node {
            name: finding.node.clone(),
            state,
            era: report.and_then(|report| report.era),
            counts: report.map(|report| report.counts),
        }
    }
}

impl From<Standing> for Lease {
    fn from(lease: Standing) -> Lease {
        Lease {
            since: lease.holder.as_ref().and_then(|holder| holder.since_utc()),
            holder: lease.holder.and_then(|holder| holder.name),
            resource: lease.resource,
            remaining: lease.remaining,
            token: lease.token,
            shared: lease.shared,
            nodes: lease.nodes,
            is_held: lease.is_held,
        }
    }
}
