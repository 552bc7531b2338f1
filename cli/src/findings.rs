//! The reports of the nodes of one list, with advice for operators.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencing::Token;
use fencing::lock::Fault;
use fencing::lock::redlock::{BuildError, Fleet, Node as _, NodeReport, RedisNode};
use futures_util::future::join_all;

use crate::duration::{self, about, show};
use crate::exit::Failure;
use crate::lock_service::Redis;
use crate::say::{self, or_none};

#[derive(Debug, clap::Args)]
pub(crate) struct NodeBudget {
    /// Time limit for an answer of one node [default: 1s, or half of a shorter --ttl].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    node_budget: Option<Duration>,
}

impl NodeBudget {
    pub(crate) fn within(&self, ttl: Duration) -> Duration {
        self.node_budget.unwrap_or(Duration::from_secs(1).min(ttl / 2))
    }
}

pub(crate) struct Findings {
    pub(crate) nodes: Vec<Finding>,
    pub(crate) fleet: Fleet,
    pub(crate) budget: Duration,
    /// The time before they were asked.
    pub(crate) asked: SystemTime,
}

pub(crate) struct Finding {
    pub(crate) node: String,
    pub(crate) server: RedisNode,
    /// `None` if it does not answer.
    pub(crate) report: Option<NodeReport>,
    /// The cause of its missing vote.
    pub(crate) problem: Option<Fault>,
}

#[derive(Clone, Copy)]
pub(crate) struct Turnout {
    pub(crate) answered: usize,
    /// Number of nodes that answer, and have forgotten no lock that may still be held.
    pub(crate) remember: usize,
    pub(crate) needed: usize,
    pub(crate) size: usize,
}

/// Asks all nodes at once. It changes nothing on them.
pub(crate) async fn ask(redis: &Redis, budget: Duration) -> Result<Findings, BuildError> {
    // Refuses a list that no client can use. The holder's name from the environment does not matter here.
    redis.builder().holder("operator").build()?;
    let (nodes, fleet) = (redis.nodes()?, redis.fleet()?);
    let asked = SystemTime::now();
    let reports = join_all(nodes.iter().map(|node| node.inspect(budget))).await;
    let mut findings = Findings { nodes: Vec::new(), fleet, budget, asked };
    for (server, report) in nodes.into_iter().zip(reports) {
        let (report, problem) = match report {
            Ok(report) => {
                let is_same = |it: &&Finding| it.report.as_ref().is_some_and(|it| it.run_id == report.run_id);
                let twin = findings.nodes.iter().find(is_same).map(|twin| Fault::SameServer(twin.node.clone()));
                let problem = twin.or_else(|| report.problem(&findings.fleet));
                (Some(report), problem)
            }
            Err(fault) => (None, Some(fault)),
        };
        let node = server.name().to_owned();
        findings.nodes.push(Finding { node, server, report, problem });
    }
    Ok(findings)
}

impl Findings {
    pub(crate) fn needed(&self) -> usize {
        self.fleet.majority()
    }

    pub(crate) fn granting(&self) -> usize {
        self.count(|finding| finding.problem.is_none())
    }

    pub(crate) fn admitted(&self) -> usize {
        self.count(Finding::is_admitted)
    }

    pub(crate) fn count(&self, which: impl Fn(&Finding) -> bool) -> usize {
        self.nodes.iter().filter(|finding| which(finding)).count()
    }

    /// Returns in what time a majority grants: zero if it does now, `None` if it never does by itself.
    pub(crate) fn opens_in(&self) -> Option<Duration> {
        let mut closed: Vec<Duration> = self.nodes.iter().filter_map(Finding::opens_in).collect();
        closed.sort_unstable();
        closed.get(self.needed().saturating_sub(1)).copied()
    }

    pub(crate) fn print(&self) {
        let mut problems: Vec<(String, Vec<&str>)> = Vec::new();
        for finding in &self.nodes {
            if let Some(facts) = finding.facts() {
                say::out(format_args!("{}: {facts}\n", finding.node));
            }
            let Some(problem) = finding.advised(self) else { continue };
            match problems.iter_mut().find(|(other, _)| *other == problem) {
                Some((_, nodes)) => nodes.push(&finding.node),
                None => problems.push((problem, vec![&finding.node])),
            }
        }
        for (problem, nodes) in problems {
            say::out(format_args!("{}: {problem}\n", nodes.join(", ")));
        }
    }

    /// Returns how many nodes are in this list, or were until they left it.
    pub(crate) fn members(&self) -> usize {
        self.count(|finding| finding.is_member(&self.fleet))
    }

    /// Returns the nodes that answer and are admitted in this list, each once. Only they count towards its majority.
    pub(crate) fn voters(&self) -> impl Iterator<Item = &Finding> {
        self.nodes.iter().filter(|finding| finding.is_counted(&self.fleet))
    }

    pub(crate) fn turnout(&self) -> Turnout {
        Turnout {
            answered: self.voters().count(),
            remember: self.voters().filter(|node| node.quarantine().is_none()).count(),
            needed: self.needed(),
            size: self.nodes.len(),
        }
    }

    /// Returns the faults of the nodes that are no voters.
    pub(crate) fn faults(&self) -> Vec<(String, Fault)> {
        let others = self.nodes.iter().filter(|finding| !finding.is_counted(&self.fleet));
        others.filter_map(|other| Some((other.node.clone(), other.problem.clone()?))).collect()
    }

    /// Asks all voters at once, and returns what each has answered. One that does not answer is no voter any more.
    pub(crate) async fn ask_voters<T>(&mut self, ask: impl AsyncFn(&RedisNode) -> Result<T, Fault>) -> Vec<T> {
        let Findings { nodes, fleet, .. } = self;
        let voters: Vec<_> = nodes.iter_mut().filter(|finding| finding.is_counted(fleet)).collect();
        let answers = join_all(voters.iter().map(|voter| ask(&voter.server))).await;
        let mut heard = Vec::new();
        for (voter, answer) in voters.into_iter().zip(answers) {
            match answer {
                Ok(answer) => heard.push(answer),
                Err(fault) => (voter.report, voter.problem) = (None, Some(fault)),
            }
        }
        heard
    }

    /// Reports whether the server is in this list, under any name.
    pub(crate) fn has(&self, finding: &Finding) -> bool {
        self.nodes.iter().any(|other| match (&finding.report, &other.report) {
            (Some(report), Some(other)) => report.run_id == other.run_id,
            _ => finding.node == other.node,
        })
    }

    /// Reports whether a move to this list has begun, and is not done.
    pub(crate) fn is_moving(&self) -> bool {
        self.nodes.iter().any(|finding| finding.has_left_for(&self.fleet))
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

impl Finding {
    pub(crate) fn is_admitted(&self) -> bool {
        let takes_no_writes = matches!(self.problem, Some(Fault::OutOfMemory | Fault::Refused(_)));
        self.problem.is_none() || self.quarantine().is_some() || takes_no_writes && self.report.is_some()
    }

    /// Returns whether the node is in this list, or was until it left it.
    pub(crate) fn is_member(&self, list: &Fleet) -> bool {
        !matches!(self.problem, Some(Fault::SameServer(_)))
            && self.report.as_ref().is_some_and(|it| it.remembers() && list.members().eq(&it.fleet))
    }

    /// Returns whether the node belongs to another list.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.problem.as_ref().is_some_and(Fault::is_elsewhere)
    }

    pub(crate) fn quarantine(&self) -> Option<Duration> {
        if let Some(Fault::Quarantined(left)) = self.problem { Some(left) } else { None }
    }

    /// Returns whether running clients of this list count the node: they do not notice a setting that has changed.
    pub(crate) fn is_counted(&self, list: &Fleet) -> bool {
        self.is_member(list) && self.report.as_ref().is_some_and(|it| it.moved_to.is_empty() && it.master)
    }

    /// Returns in what time it grants: zero if it does now, `None` if it never does by itself.
    pub(crate) fn opens_in(&self) -> Option<Duration> {
        match self.problem {
            None => Some(Duration::ZERO),
            Some(_) => self.quarantine().filter(|left| *left < Duration::MAX && self.to_mend().is_none()),
        }
    }

    /// Returns the problem to mend. A quarantine is none.
    pub(crate) fn to_mend(&self) -> Option<Fault> {
        if self.quarantine().is_some() { self.report.as_ref()?.refusal() } else { self.problem.clone() }
    }

    /// Returns the problem to mend, with its remedy.
    pub(crate) fn advised(&self, findings: &Findings) -> Option<String> {
        let fault = self.to_mend()?;
        let advice = match &fault {
            Fault::Unreachable(_) => " (is it running? is the URL right?)",
            Fault::TimedOut => &format!(": no answer within {} (hung, or out of reach?)", show(findings.budget)),
            Fault::Denied(_) => " (check user, password and ACL)",
            Fault::NotMaster => {
                " (stop its replication and restart the server empty, or give the address of a master without failover)"
            }
            Fault::MaxmemoryPolicy(_) => ", as other policies evict locks (CONFIG SET maxmemory-policy noeviction)",
            Fault::OtherFleet { .. } => " (use that list here, too; only `fencing fleet move` changes a fleet's list)",
            Fault::SameServer(_) => " (one server has one vote: give each name a server of its own)",
            Fault::NotAdmitted => &self.way_back(findings),
            _ => "",
        };
        Some(format!("{fault}{advice}"))
    }

    /// Says why a node is not admitted, and what brings it back.
    fn way_back(&self, findings: &Findings) -> String {
        if self.has_left_for(&findings.fleet) {
            return ": it has left its fleet for this list, which was not started; run `fencing fleet move` again"
                .into();
        }
        let why = match self.report.as_ref().is_some_and(|report| report.admitted_as.is_some()) {
            true => "it has restarted since",
            false => "it knows of no locks (new, flushed or restarted empty)",
        };
        // Nodes that have all restarted empty are blank as well: nothing shows that they were in use.
        let blank = |it: &Finding| it.report.as_ref().is_some_and(|report| report.era.is_none());
        let mut missing = findings.nodes.iter().filter(|finding| finding.report.is_none()).peekable();
        let next = if findings.is_moving() {
            "run `fencing fleet move` again, which starts this list"
        } else if findings.admitted() >= findings.needed() {
            "the next client brings it back, or `fencing fleet recover`"
        } else if findings.nodes.iter().any(Finding::is_elsewhere) {
            "it can't come back in this list while other nodes of the list belong to another fleet"
        } else if missing.peek().is_some() {
            &format!(
                "too few nodes remember, so it comes back only when every node answers. No answer from: {}. If a \
                 node is gone for good, start an empty server under its name. If a move to this list has begun, \
                 repeat it with the same lists",
                say::listed(missing.map(|finding| &finding.node), ", ")
            )
        } else {
            let new = if findings.nodes.iter().all(blank) { NEVER_IN_USE } else { "" };
            &format!(
                "the next client starts the fleet, unless the client is strict, once each server has been up for the \
                 client's TTL; so does `fencing fleet recover --ttl LONGEST`, where LONGEST is the longest TTL of any \
                 client. After a flush, stop all clients for LONGEST first{new}"
            )
        };
        format!(": {why}; {next}")
    }

    fn facts(&self) -> Option<String> {
        let report = self.report.as_ref()?;
        let state = match self.quarantine() {
            Some(Duration::MAX) => {
                "admitted, grants nothing until an operator ends its quarantine (`fencing fleet recover --now` says \
                 when and how); "
            }
            Some(left) => &format!("admitted, grants nothing for another {}; ", about(left)),
            None if self.is_admitted() => "admitted; ",
            None => "",
        };
        let era = or_none(report.era);
        let longest = or_none(Some(report.longest).filter(|longest| !longest.is_zero()).map(about));
        let unlimited = if report.maxmemory == 0 { " (no maxmemory)" } else { "" };
        let crowded = if report.crowded { " (crowded)" } else { "" };
        Some(format!(
            "{state}era {era}, {} counts{crowded}, longest lock {longest}, run_id {}, policy {}{unlimited}",
            report.counts, report.run_id, report.maxmemory_policy
        ))
    }

    pub(crate) fn has_left_for(&self, list: &Fleet) -> bool {
        self.report.as_ref().is_some_and(|it| it.remembers() && list.members().eq(&it.moved_to))
    }
}

pub(crate) fn print_faults(faults: &[(String, Fault)]) {
    faults.iter().for_each(|(node, fault)| say::error(format_args!("{node}: {fault}")));
}

/// The largest difference between a server's clock and this machine's: beyond it one of them is wrong.
const CLOCKS_APART: Duration = Duration::from_secs(5);

/// Returns a message if a server's clock is wrong. The server read it at `asked` or later.
pub(crate) fn clock_fault(clock: Option<Duration>, asked: SystemTime) -> Option<String> {
    let clock = UNIX_EPOCH + clock?;
    let apart = asked.duration_since(clock).or(clock.duration_since(SystemTime::now())).unwrap_or_default();
    let why = || {
        let apart = about(apart);
        format!(
            "its clock and this machine's clock are {apart} apart: correct the wrong one, but set no node's clock back \
             while a majority is lost"
        )
    };
    (apart > CLOCKS_APART).then(why)
}

const NEVER_IN_USE: &str = "; if these nodes were never in use, and only then, `fencing fleet init` starts them at \
                            once (if they were in use, two clients may hold one lease). If a move to this list has \
                            begun, run that move again instead";
