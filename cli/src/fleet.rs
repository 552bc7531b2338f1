use std::time::Duration;

use fencing::Redlock;
use fencing::lock::redlock::{BuildError, Fleet, Node, OperatorError, RedisNode};
use fencing::lock::{Fault, NodeCause};
use rustix::process::Signal;

use crate::args::fleet::{AdmitArgs, FleetAction, FleetArgs, InitArgs, MoveArgs};
use crate::duration::about;
use crate::exit::{self, Failure};
use crate::findings::{self, Finding, Findings};
use crate::nodes::verdict;
use crate::say;
use crate::signals::Signals;

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Failure {
        Failure::usage(error)
    }
}

impl From<OperatorError> for Failure {
    fn from(error: OperatorError) -> Failure {
        match error {
            OperatorError::NotAll { .. } | OperatorError::OldForgot { .. } => {
                Failure::unavailable(error)
            }
            OperatorError::SameList => Failure::usage(error),
            _ => Failure::refused(error),
        }
    }
}

/// Does what is asked, until it is done or a signal comes.
pub(crate) async fn main(fleet: FleetArgs) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    let action = async {
        match &fleet.action {
            FleetAction::Init(init) => start(init).await,
            FleetAction::Admit(admit) => bring_back(admit).await,
            FleetAction::Move(order) => relocate(order).await,
        }
    };
    tokio::select! {
        biased;
        signal = signals.next() => Err(interrupted(&fleet.action, signal)),
        outcome = action => outcome.map(|()| 0),
    }
}

fn interrupted(action: &FleetAction, signal: Signal) -> Failure {
    let moving = match action {
        FleetAction::Move(_) => "; while the move is half done no client gets a lease",
        _ => "",
    };
    let status = exit::by_signal(signal.as_raw());
    Failure(status, format!("interrupted by a signal{moving}: run the same command again"))
}

async fn start(init: &InitArgs) -> Result<(), Failure> {
    let (urls, namespace) = (|| init.redis.urls(), &init.redis.namespace);
    let ttl = Duration::from_secs(10);
    let budget = init.budget.within(ttl);
    let service = Redlock::builder().redis(urls()).namespace(namespace).ttl(ttl);
    let service = service.node_budget(budget).build()?;
    service.operator().init().await?;
    let findings = findings::ask(urls(), namespace, budget).await?;
    findings.print();
    verdict(&findings).map_err(|Failure(status, why)| {
        let in_use = findings.admitted() >= findings.needed();
        let more = if in_use { IN_USE } else { "" };
        Failure(status, format!("{why}{more}"))
    })
}

async fn bring_back(admit: &AdmitArgs) -> Result<(), Failure> {
    if admit.now && !admit.yes {
        return Err(Failure::usage(NOW));
    }
    let (urls, namespace) = (|| admit.redis.urls(), &admit.redis.namespace);
    let budget = admit.budget.within(admit.ttl);
    let service = Redlock::builder().redis(urls()).namespace(namespace).ttl(admit.ttl);
    let service = service.node_budget(budget).build()?;
    let operator = service.operator();
    let done = operator.admit().await;
    let opened = if admit.now { Some(operator.open().await) } else { None };
    let findings = findings::ask(urls(), namespace, budget).await?;
    for cause in done.causes.iter().filter(|cause| !findings.show(cause)) {
        say::error(cause);
    }
    findings.print();
    match opened {
        Some(Ok(nodes)) if nodes.is_empty() => say::out("no node was quarantined\n"),
        Some(Ok(nodes)) => say::out(format_args!("quarantine ended: {}\n", nodes.join(", "))),
        Some(Err(error)) => say::error(error),
        None => {}
    }
    if admit.now || findings.admitted() < findings.needed() {
        return verdict(&findings);
    }
    say::out(format_args!("{}\n", outlook(&findings)));
    Ok(())
}

async fn relocate(order: &MoveArgs) -> Result<(), Failure> {
    if order.lost && !order.yes {
        return Err(Failure::usage(LOST));
    }
    let budget = order.budget.within(order.ttl);
    let service = |urls: Vec<&str>| {
        let builder = Redlock::builder().redis(urls).namespace(&order.namespace);
        builder.ttl(order.ttl).node_budget(budget).build()
    };
    let named = |which, error| Failure::usage(format_args!("{which}: {error}"));
    let old = service(order.from().collect()).map_err(|error| named("--from", error))?;
    let new = service(order.to().collect()).map_err(|error| named("--to", error))?;
    let (from, to) = (names(order.from(), order)?, names(order.to(), order)?);
    say::out(format_args!(
        "moving {from} to {to}; clients with the old list get no lease once the move has begun\n"
    ));
    let operator = old.operator();
    let moved = match order.lost {
        true => operator.move_lost_to(&new).await,
        false => operator.move_to(&new).await,
    };
    moved.map_err(advised)?;
    let findings = findings::ask(order.to(), &order.namespace, budget).await?;
    findings.print();
    let outlook = outlook(&findings);
    say::out(format_args!(
        "moved. {outlook}\nGive every client the new list now: {to}\nExporters and timers need it, too.\n"
    ));
    let old = findings::ask(order.from(), &order.namespace, budget).await?;
    if old.nodes.len() < findings.needed() {
        say::out(
            "The old list fits into a minority of the new one: where its servers restart without their data, a client that \
             still has it may start the old fleet again, beside the new one. Restart none of them before every client \
             has the new list.\n",
        );
    }
    let left: Vec<&str> = left(&old, &findings).collect();
    if !left.is_empty() {
        let left = left.join(", ");
        match order.lost {
            true => say::out(format_args!(
                "Stop what is left of the old list ({left}) for good: it must never serve a client with that list again.\n"
            )),
            false => say::out(format_args!(
                "Leave what is left of the old list ({left}) running, and stop it only when no client has \
                 that list any more.\n"
            )),
        }
    }
    Ok(())
}

/// Returns the names of the nodes of a list, without user and password.
fn names<'a>(urls: impl Iterator<Item = &'a str>, order: &MoveArgs) -> Result<Fleet, Failure> {
    let nodes = urls.map(|url| RedisNode::new(url, &order.namespace));
    let nodes: Vec<RedisNode> = nodes.collect::<Result<_, _>>()?;
    let names = Fleet::new(nodes.iter().map(Node::member));
    names.map_err(Failure::usage)
}

/// Returns the nodes of the old list whose servers are not in the new one under any name.
fn left<'a>(old: &'a Findings, new: &'a Findings) -> impl Iterator<Item = &'a str> {
    let stays = |finding: &&Finding| {
        new.nodes.iter().any(|other| match (&finding.report, &other.report) {
            (Ok(report), Ok(other)) => report.run_id == other.run_id,
            _ => finding.node == other.node,
        })
    };
    old.nodes.iter().filter(move |finding| !stays(finding)).map(|finding| finding.node.as_str())
}

/// Adds what to do about a move that was not done.
fn advised(error: OperatorError) -> Failure {
    let more = match &error {
        OperatorError::OldForgot { .. } => {
            "; bring these nodes back and run the same command again (`fencing fleet admit` brings \
             them back if no move has begun); if they are lost for good, see --lost"
        }
        OperatorError::BothInUse => {
            "; if clients got the new list too early, stop them, restart the nodes that are only in the \
             new list without their data, and run the same command again"
        }
        OperatorError::NotAll { causes } if causes.iter().any(left_before) => {
            "; a node that its fleet has left in an earlier move can join this one when it knows that \
             the earlier one is done: run that one again, and then the same command. If that cannot be \
             done, and no client has a list with this node any more, restart its server without its data"
        }
        OperatorError::NotAll { .. } => {
            "; mend that and run the same command again. If an earlier run has begun the move, \
             no client gets a lease until it is done"
        }
        OperatorError::OtherFleet(_) => "; is --from the list that clients have now?",
        _ => "",
    };
    let stand_in = match &error {
        OperatorError::NotAll { causes } => causes.iter().find(|cause| is_gone(cause)),
        _ => None,
    };
    let stand_in = stand_in.map_or_else(String::new, |cause| {
        let name = without_user(&cause.node);
        format!(
            ". If a node is gone for good, start an empty server, and run the command again with that server under \
             the node's name: in --to, {name}=redis://ADDRESS in place of {name}. Give clients the same list. Stop \
             the old server for good: two servers with one name are two votes"
        )
    });
    let Failure(status, why) = error.into();
    Failure(status, format!("{why}{more}{stand_in}"))
}

fn is_gone(cause: &NodeCause) -> bool {
    matches!(cause.cause, Fault::Unreachable(_) | Fault::TimedOut | Fault::Disconnected(_))
}

/// Returns the name by which the fleet knows the node.
fn without_user(node: &str) -> String {
    match node.split_once("://") {
        Some((scheme, place)) => {
            format!("{scheme}://{}", place.rsplit('@').next().unwrap_or(place))
        }
        None => node.to_owned(),
    }
}

fn left_before(cause: &NodeCause) -> bool {
    matches!(cause.cause, Fault::Moved { .. })
}

/// Says when leases are granted.
fn outlook(findings: &Findings) -> String {
    match findings.opens_in() {
        Some(Duration::ZERO) => "Leases are granted now.".into(),
        Some(left) => {
            format!(
                "Leases are granted in {}, when the locks that may be held have expired. {SKIP}",
                about(left)
            )
        }
        None => "Too few nodes can grant a lease: see the lines above.".into(),
    }
}

const IN_USE: &str = "; the nodes have been in use, and this command leaves them as they are; if no lock is \
                      held, end the quarantine by `fencing fleet admit --now`";

const SKIP: &str = "If you know that no lock is held, `fencing fleet admit --now` ends the wait.";

const NOW: &str = "\
--now ends each quarantine: nodes that have forgotten locks grant at once. If a client still holds
a lock that they have forgotten, two clients hold it at one time, until the storage refuses the
older token; `fencing leases` does not show such a lock. Use --now if no client has run for as long
as its TTL, or if you have stopped all clients. Add --yes to do it.";

const LOST: &str = "\
--lost starts the new list although no majority of the old one answers and remembers. The counts of
the old list are lost with it, so the order of the tokens depends on the nodes' clocks. Use --lost if
that majority has forgotten or is gone for good. The nodes that do not answer must never serve a
client with the old list again: stop them for good. --ttl must be the longest TTL of any client.
Add --yes to do it.";
