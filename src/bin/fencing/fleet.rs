use std::time::Duration;

use fencing::Redlock;
use fencing::lock::Fault;
use fencing::lock::NodeCause;
use fencing::lock::redlock::Fleet as Names;
use fencing::lock::redlock::{BuildError, Node, OperatorError, RedisNode};
use rustix::process::Signal;

use crate::duration::about;
use crate::findings::{self, Finding, Findings};
use crate::fleet_args::{Admit, Fleet, FleetAction, Init, Move};
use crate::nodes::verdict;
use crate::signals::Signals;
use crate::{exit, say};

/// Why an operation ends before its end: what to say, and the exit status.
struct Refusal(String, u8);

impl From<BuildError> for Refusal {
    fn from(error: BuildError) -> Refusal {
        Refusal(error.to_string(), exit::USAGE)
    }
}

impl From<OperatorError> for Refusal {
    fn from(error: OperatorError) -> Refusal {
        let status = match error {
            OperatorError::NotAll { .. } | OperatorError::OldForgot { .. } => exit::UNAVAILABLE,
            OperatorError::SameList => exit::USAGE,
            _ => exit::REFUSED,
        };
        Refusal(error.to_string(), status)
    }
}

/// Does it, until it is done or a signal comes.
pub(crate) async fn main(fleet: Fleet) -> u8 {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            say::error(format_args!("no signals: {error}"));
            return exit::FAILED;
        }
    };
    let action = async {
        match &fleet.action {
            FleetAction::Init(init) => start(init).await,
            FleetAction::Admit(admit) => bring_back(admit).await,
            FleetAction::Move(order) => relocate(order).await,
        }
    };
    let outcome = tokio::select! {
        biased;
        signal = signals.next() => return interrupted(&fleet.action, signal),
        outcome = action => outcome,
    };
    outcome.unwrap_or_else(|Refusal(why, status)| {
        say::error(why);
        status
    })
}

fn interrupted(action: &FleetAction, signal: Signal) -> u8 {
    say::error(match action {
        FleetAction::Move(_) => {
            "interrupted; while the move is half done nobody gets a lease: run the same command again"
        }
        _ => "interrupted: run the same command again",
    });
    exit::by_signal(signal.as_raw())
}

async fn start(init: &Init) -> Result<u8, Refusal> {
    let (urls, namespace) = (|| init.redis.urls(), &init.redis.namespace);
    let ttl = Duration::from_secs(10);
    let budget = init.budget.within(ttl);
    let service = Redlock::builder().redis(urls()).namespace(namespace).ttl(ttl);
    let service = service.node_budget(budget).build()?;
    service.operator().init().await?;
    let findings = findings::ask(urls(), namespace, budget).await?;
    findings.print();
    let status = verdict(&findings);
    if status != 0 && findings.admitted() >= findings.needed() {
        say::error(
            "the nodes have been in use, and this command leaves them as they are; \
             `fencing fleet admit --now` ends a quarantine",
        );
    }
    Ok(status)
}

async fn bring_back(admit: &Admit) -> Result<u8, Refusal> {
    if admit.now && !admit.yes {
        return Err(Refusal(NOW.into(), exit::USAGE));
    }
    let (urls, namespace) = (|| admit.redis.urls(), &admit.redis.namespace);
    let budget = admit.budget.within(admit.ttl);
    let service = Redlock::builder().redis(urls()).namespace(namespace).ttl(admit.ttl);
    let service = service.node_budget(budget).build()?;
    let operator = service.operator();
    let done = operator.admit().await;
    for cause in &done.causes {
        say::error(cause);
    }
    let opened = if admit.now { Some(operator.open().await) } else { None };
    let findings = findings::ask(urls(), namespace, budget).await?;
    findings.print();
    match opened {
        Some(Ok(nodes)) if nodes.is_empty() => say::out("no node was quarantined\n"),
        Some(Ok(nodes)) => say::out(format_args!("quarantine ended: {}\n", nodes.join(", "))),
        Some(Err(error)) => say::error(error),
        None => {}
    }
    if admit.now || findings.admitted() < findings.needed() {
        return Ok(verdict(&findings));
    }
    say::out(format_args!("{}\n", outlook(&findings, SKIP)));
    Ok(0)
}

async fn relocate(order: &Move) -> Result<u8, Refusal> {
    if order.lost && !order.yes {
        return Err(Refusal(LOST.into(), exit::USAGE));
    }
    let budget = order.budget.within(order.ttl);
    let service = |urls: Vec<&str>| {
        let builder = Redlock::builder().redis(urls).namespace(&order.namespace);
        builder.ttl(order.ttl).node_budget(budget).build()
    };
    let named = |which, error| Refusal(format!("{which}: {error}"), exit::USAGE);
    let old = service(order.from().collect()).map_err(|error| named("--from", error))?;
    let new = service(order.to().collect()).map_err(|error| named("--to", error))?;
    let (from, to) = (names(order.from(), order)?, names(order.to(), order)?);
    say::out(format_args!(
        "moving {from} to {to}; clients with the old list get no lease once that has begun\n"
    ));
    let operator = old.operator();
    let moved = match order.lost {
        true => operator.move_lost_to(&new).await,
        false => operator.move_to(&new).await,
    };
    moved.map_err(advised)?;
    let findings = findings::ask(order.to(), &order.namespace, budget).await?;
    findings.print();
    let outlook = outlook(&findings, SKIP);
    say::out(format_args!("moved. {outlook}\nGive every client the new list now: {to}\n"));
    let old = findings::ask(order.from(), &order.namespace, budget).await?;
    let left: Vec<&str> = left(&old, &findings).collect();
    if !left.is_empty() {
        say::out(format_args!(
            "Leave what is left of the old list ({}) running, and stop it only when no client has \
             that list any more.\n",
            left.join(", ")
        ));
    }
    Ok(0)
}

/// The names of the nodes of a list: no user, no password.
fn names<'a>(urls: impl Iterator<Item = &'a str>, order: &Move) -> Result<Names, Refusal> {
    let nodes = urls.map(|url| RedisNode::new(url, &order.namespace));
    let nodes: Vec<RedisNode> = nodes.collect::<Result<_, _>>()?;
    let names = Names::new(nodes.iter().map(Node::member));
    names.map_err(|error| Refusal(error.to_string(), exit::USAGE))
}

/// The nodes of the old list that are in the new one under no name.
fn left<'a>(old: &'a Findings, new: &'a Findings) -> impl Iterator<Item = &'a str> {
    let stays = |finding: &&Finding| {
        new.nodes.iter().any(|other| match (&finding.report, &other.report) {
            (Ok(report), Ok(other)) => report.run_id == other.run_id,
            _ => finding.node == other.node,
        })
    };
    old.nodes.iter().filter(move |finding| !stays(finding)).map(|finding| finding.node.as_str())
}

/// What to do about a move that was not done.
fn advised(error: OperatorError) -> Refusal {
    let more = match &error {
        OperatorError::OldForgot { .. } => {
            "; bring those back and run the same command again (before anything was moved \
             `fencing fleet admit` brings them back); if they are lost for good, see --lost"
        }
        OperatorError::BothInUse => {
            "; if a client was given the new list too early, stop such clients, delete the key \
             {NAMESPACE}:memory on the nodes that are only in the new list, and run the same \
             command again"
        }
        OperatorError::NotAll { causes } if causes.iter().any(left_before) => {
            "; a node that was left by an earlier move can come back when it has forgotten that: \
             restart its server, or delete its key {NAMESPACE}:memory"
        }
        OperatorError::NotAll { .. } => {
            "; mend that and run the same command again. If the move had begun before, nobody gets \
             a lease until it is done"
        }
        _ => "",
    };
    let Refusal(why, status) = error.into();
    Refusal(format!("{why}{more}"), status)
}

fn left_before(cause: &NodeCause) -> bool {
    matches!(cause.cause, Fault::Moved { .. })
}

/// When leases are granted.
fn outlook(findings: &Findings, skip: &str) -> String {
    match findings.opens_in() {
        Some(Duration::ZERO) => "Leases are granted now.".into(),
        Some(left) => {
            format!(
                "Leases are granted in {}, when the locks that may be held have ended. {skip}",
                about(left)
            )
        }
        None => "Too few nodes are there to grant a lease.".into(),
    }
}

const SKIP: &str = "If you know that none is held: `fencing fleet admit --now`.";

const NOW: &str = "\
--now ends each quarantine: nodes that have forgotten locks grant at once. If a lock is held that
they have forgotten, two clients hold it at one time, until the storage refuses the older token.
It is right if no client has run for as long as its TTL, or if all have been stopped. Add --yes
to do it.";

const LOST: &str = "\
--lost starts the new list although no majority of the old one answers and remembers. What the
old list counted is lost with it: the order of the tokens rests on the nodes' clocks. It is right
if that majority has forgotten or is gone for good. The nodes that do not answer must never come
back for a client with the old list: stop them for good. --ttl must be the longest TTL of any
client. Add --yes to do it.";
