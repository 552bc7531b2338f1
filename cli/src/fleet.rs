use std::time::{Duration, UNIX_EPOCH};

use clap::Subcommand;
use fencing::lock::redlock::{Node, NodeOutcomes, OperatorError};
use fencing::lock::{Fault, NodeCause};

use crate::duration::{self, about};
use crate::exit::{self, Failure};
use crate::findings::{self, Finding, Findings, NodeBudget, clock_fault, is_silent};
use crate::nodes::verdict;
use crate::place::{NAMESPACE, Redis};
use crate::say;
use crate::signals::Signals;

/// Starts new nodes, brings nodes back, or moves the locks to other nodes.
///
/// The nodes of one list are a fleet. Their names are its identity, so every client must give the same list. Clients
/// start a fleet and bring nodes back by themselves; these commands do what only an operator may decide.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetAction {
    /// Starts new nodes at once.
    ///
    /// Without this command the first client starts them, and gets no lease until each server has been up for the
    /// client's TTL. This command declares that the nodes are new: that no client can hold a lock there. Never run it
    /// after nodes that were in use have restarted empty: nothing on them shows that, and two clients may hold a lock
    /// that all nodes have forgotten. Nodes that have granted locks since they started stay as they are.
    Init {
        #[command(flatten)]
        redis: Redis,
        #[command(flatten)]
        budget: NodeBudget,
    },
    Recover(RecoverArgs),
    Move(MoveArgs),
}

/// Brings back every node that restarted or lost its state. No client needs to run.
///
/// If too few nodes remember, all must answer, and the fleet starts again: token order then follows the nodes' clocks,
/// which must not be behind this machine's. A returning node grants nothing until locks it may have forgotten expire.
#[derive(Debug, clap::Args)]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    redis: Redis,
    /// The longest TTL of any client: a fleet that forgot its locks grants nothing until each server is up that long.
    /// Needed where too few nodes remember.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ttl: Option<Duration>,
    #[command(flatten)]
    budget: NodeBudget,
    /// Also ends each quarantine. Use it only if no client can hold a lock. Needs --yes.
    #[arg(long)]
    now: bool,
    /// Confirms --now; without --yes, the command only explains it.
    #[arg(long, requires = "now")]
    yes: bool,
}

/// Moves the locks to another list of nodes: replaces nodes, adds some, drops some, or gives them other names.
///
/// A majority of the old list must remember, and every node of the new list must answer. Then clients with the old list
/// get no lease, and their leases end. Give clients the new list when the move is done, and not before: a client that
/// finds all of its nodes new starts a separate fleet. You may interrupt the move, repeat it, and run it twice at once.
///
/// A node's name is its URL without user and password, or the name in front of the URL, as in a=redis://10.0.0.5:6379:
/// such a node may change its address without a move.
#[derive(Debug, clap::Args)]
pub(crate) struct MoveArgs {
    /// The old list, as clients have it now.
    #[arg(long, value_name = "URL,URL,...", env = "FENCING_FROM", hide_env_values = true)]
    from: String,
    /// The new list, with every node that is to stay.
    #[arg(long, value_name = "URL,URL,...", env = "FENCING_TO", hide_env_values = true)]
    to: String,
    /// Prefix of the keys on the nodes.
    #[arg(long, value_name = "NS", default_value = NAMESPACE)]
    namespace: String,
    /// The longest TTL of any client: with --lost, the new list grants nothing for that long.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ttl: Option<Duration>,
    #[command(flatten)]
    budget: NodeBudget,
    /// Continues although no majority of the old list answers with its state. Needs --ttl and --yes.
    #[arg(long)]
    lost: bool,
    /// Confirms --lost; without --yes, the command only explains it.
    #[arg(long, requires = "lost")]
    yes: bool,
}

pub(crate) async fn main(action: FleetAction) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    let done = async {
        match &action {
            FleetAction::Init { redis, budget } => start(redis, budget).await,
            FleetAction::Recover(recover) => bring_back(recover).await,
            FleetAction::Move(order) => relocate(order).await,
        }
    };
    tokio::select! {
        biased;
        signal = signals.next() => {
            let why = "interrupted by a signal: run the same command again, and give no client the new list of an \
                       unfinished move";
            Err(Failure(exit::by_signal(signal.as_raw()), why.to_owned()))
        }
        done = done => done.map(|()| 0),
    }
}

async fn start(redis: &Redis, budget: &NodeBudget) -> Result<(), Failure> {
    let budget = budget.within(DEFAULT_TTL);
    let before = findings::ask(redis, budget).await?;
    if before.is_moving() && before.members() < before.needed() {
        before.print();
        return Err(Failure::unavailable(HALF_MOVED));
    }
    redis.builder().ttl(DEFAULT_TTL).node_budget(budget).build()?.operator().init().await?;
    let findings = findings::ask(redis, budget).await?;
    findings.print();
    verdict(&findings).map_err(|Failure(status, why)| {
        let is_closed = findings.count(|node| node.quarantine().is_some()) > 0;
        let more = if is_closed && findings.admitted() >= findings.needed() { IN_USE } else { "" };
        Failure(status, format!("{why}{more}"))
    })
}

async fn bring_back(recover: &RecoverArgs) -> Result<(), Failure> {
    Failure::unless(recover.yes || !recover.now, NOW)?;
    let ttl = recover.ttl.unwrap_or(DEFAULT_TTL);
    let budget = recover.budget.within(ttl);
    let operator = recover.redis.builder().ttl(ttl).node_budget(budget).build()?.operator();
    let before = findings::ask(&recover.redis, budget).await?;
    let starts = before.members() < before.needed() && !before.is_moving() && before.count(Finding::is_elsewhere) == 0;
    // Nodes that do not answer now may do so in a moment, without their locks.
    if starts && recover.ttl.is_none() && !recover.now {
        before.print();
        let some_answer = before.count(|it| it.report.is_some()) > 0;
        return if some_answer { Err(Failure::usage(NO_TTL)) } else { verdict(&before) };
    }
    if starts {
        check_clocks(&before)?;
    }
    let done = operator.admit().await;
    let opened = if recover.now { Some(operator.open().await) } else { None };
    let findings = findings::ask(&recover.redis, budget).await?;
    let is_printed = |it: &&NodeCause| {
        findings.nodes.iter().any(|node| node.node == it.node && node.problem.as_ref() == Some(&it.cause))
    };
    match findings.is_moving() {
        // The causes would name another way out, which loses the counts.
        true => say::error(HALF_MOVED),
        false => done.causes.iter().filter(|cause| !is_printed(cause)).for_each(say::error),
    }
    findings.print();
    if let Some(opened) = opened {
        return report_opened(&findings, &opened);
    }
    if before.members() >= before.needed() && recover.ttl.is_some() {
        say::out("--ttl was not needed: the fleet is started already\n");
    }
    if findings.opens_in().is_none() {
        return verdict(&findings);
    }
    say::out(format_args!("{}\n", outlook(&findings)));
    if starts {
        let ttl = about(ttl);
        say::out(format_args!(
            "A client with a TTL above --ttl ({ttl}) may still hold a lock that the nodes have forgotten.\n"
        ));
    }
    let missing = say::listed(done.causes.iter().map(|cause| &cause.node), ", ");
    if missing.is_empty() { Ok(()) } else { Err(Failure::refused(format_args!("not brought back: {missing}"))) }
}

fn report_opened(findings: &Findings, opened: &NodeOutcomes) -> Result<(), Failure> {
    match opened.done.is_empty() {
        true => say::out("no quarantine was ended\n"),
        false => say::out(format_args!("quarantine ended: {}\n", opened.done.join(", "))),
    }
    verdict(findings)?;
    say::out(format_args!("{}\n", outlook(findings)));
    let causes = say::listed(&opened.causes, "; ");
    let why = format_args!("these nodes may still be quarantined: {causes}");
    if causes.is_empty() { Ok(()) } else { Err(Failure::unavailable(why)) }
}

/// Refuses to start a list again if a node's clock is behind this machine's: tokens may repeat. One that is ahead may have
/// given the last era, and the next one must be larger.
fn check_clocks(findings: &Findings) -> Result<(), Failure> {
    let behind = |it: &Finding| {
        let clock = it.report.as_ref()?.clock.filter(|clock| UNIX_EPOCH + *clock < findings.asked);
        Some(format!("{}: {}", it.node, clock_fault(clock, findings.asked)?))
    };
    let behind = say::listed(findings.nodes.iter().filter_map(behind), "; ");
    let why = "nothing was changed, as tokens may repeat where clocks are behind";
    if behind.is_empty() { Ok(()) } else { Err(Failure::refused(format_args!("{why}: {behind}"))) }
}

async fn relocate(order: &MoveArgs) -> Result<(), Failure> {
    Failure::unless(!order.lost || order.yes && order.ttl.is_some(), LOST)?;
    let ttl = order.ttl.unwrap_or(DEFAULT_TTL);
    let budget = order.budget.within(ttl);
    let redis = |urls: &String| Redis { urls: urls.clone(), namespace: order.namespace.clone() };
    let (from, to) = (redis(&order.from), redis(&order.to));
    let open = |which, redis: &Redis| {
        let named = |error| Failure::usage(format_args!("{which}: {error}"));
        redis.builder().ttl(ttl).node_budget(budget).build().map_err(named)
    };
    let (old, new) = (open("--from", &from)?.operator(), open("--to", &to)?);
    let new_list = to.fleet()?;
    if from.fleet()? == new_list {
        return Err(advised(OperatorError::SameList, &to));
    }
    let now = findings::ask(&from, budget).await?;
    // One member proves that the list was started, in an era above those before.
    if now.is_moving() && now.members() < if order.lost { 1 } else { now.needed() } {
        now.print();
        return Err(Failure::unavailable(format_args!("--from: {HALF_MOVED}")));
    }
    let target = findings::ask(&to, budget).await?;
    if !order.lost {
        check_left(&now, &target)?;
    } else if target.admitted() < target.needed() {
        check_clocks(&target)?;
    }
    say::out(format_args!(
        "moving {} to {}; clients with the old list get no lease once the move has begun\n",
        now.fleet, new_list
    ));
    let moved = if order.lost { old.move_lost_to(&new).await } else { old.move_to(&new).await };
    if let Err(error) = moved {
        let now = findings::ask(&from, budget).await?;
        let is_done = matches!(error, OperatorError::NotLeft { .. } | OperatorError::BothInUse);
        let has_begun = !is_done && now.nodes.iter().any(|node| node.has_left_for(&new_list));
        let Failure(status, why) = advised(error, &to);
        return Err(Failure(status, if has_begun { format!("{why}. {BEGUN}") } else { why }));
    }
    let new = findings::ask(&to, budget).await?;
    new.print();
    say::out(format_args!(
        "moved. {}\nGive every client the new list now: {}\nExporters and timers need it, too.\n",
        outlook(&new),
        say::without_passwords(&order.to).replace("***@", "USER:PASSWORD@")
    ));
    say_what_is_left(&findings::ask(&from, budget).await?, &new, order.lost);
    if new.opens_in().is_none() { verdict(&new) } else { Ok(()) }
}

/// Refuses a move that would end half-way: too few nodes of the old list answer, and the new one is not at work.
fn check_left(old: &Findings, new: &Findings) -> Result<(), Failure> {
    let has_left = |it: &Finding| matches!(&it.problem, Some(Fault::Moved { to }) if !new.fleet.members().eq(to));
    let (all, needed) = (old.nodes.len(), old.needed());
    let answered = old.count(|it| it.is_member(&old.fleet) && !has_left(it));
    let lists = old.nodes.iter().filter_map(|it| it.report.as_ref()).flat_map(|it| [&it.fleet, &it.moved_to]);
    let others: Vec<_> = lists.filter(|list| !list.is_empty() && !old.fleet.members().eq(*list)).collect();
    let is_at_work = new.admitted() >= new.needed();
    let has_begun = is_at_work || others.iter().any(|list| new.fleet.members().eq(*list));
    let can_go_on = answered >= needed || has_begun;
    // Such a node cannot join the new list, or is missing from the majority of the old one.
    if !is_at_work && old.count(|it| has_left(it) && (new.has(it) || !can_go_on)) > 0 {
        old.print();
        return Err(Failure::refused(LEFT_FOR_ANOTHER));
    }
    if can_go_on {
        return Ok(());
    }
    old.print();
    Err(match others.is_empty() {
        false => Failure::refused("nothing was changed: is --from the list that clients have now?"),
        true => Failure::unavailable(format_args!(
            "{answered} of {all} nodes of --from answer with their state, and {needed} are needed: nothing was \
             changed. Is --from the list that clients have now? If so, bring the others back (`fencing fleet recover`); \
             if they are gone for good, see --lost"
        )),
    })
}

/// Says what may become of the old list, and of its servers that are not in the new one under any name.
fn say_what_is_left(old: &Findings, new: &Findings, lost: bool) {
    if old.nodes.len() < new.needed() {
        say::out(
            "The old list is a minority of the new one. If its servers restart without their data, a client that \
             still has it may start the old fleet again, beside the new one. Restart none of them before every client \
             has the new list.\n",
        );
    }
    let left = say::listed(old.nodes.iter().filter(|finding| !new.has(finding)).map(|finding| &finding.node), ", ");
    match lost {
        _ if left.is_empty() => {}
        true => say::out(format_args!(
            "Stop the remaining servers of the old list ({left}) for good: they must never serve that list again.\n"
        )),
        false => say::out(format_args!(
            "Leave the remaining servers of the old list ({left}) running until no client has that list, unless a move \
             with --lost has said to stop them.\n"
        )),
    }
}

fn advised(error: OperatorError, to: &Redis) -> Failure {
    let causes = if let OperatorError::NotAll { causes } = &error { causes.as_slice() } else { &[] };
    let more = match &error {
        OperatorError::OldForgot { .. } => {
            "; is --from the list that clients have now? If so, bring these nodes back and run the same command again; \
             if they are lost for good, or have restarted, see --lost"
        }
        OperatorError::NotLeft { .. } => {
            ". If an earlier run printed `moved`, the move is done (after --lost, keep the old servers stopped). \
             Otherwise give no client the new list: start or resume the other old nodes if they still have their data, \
             and run the same command again. If they are gone for good, or have restarted, see --lost. Do not run \
             `fencing fleet recover` for --from: it may start the old fleet again"
        }
        OperatorError::BothInUse => {
            "; if --lost made the new one, stop the old servers for good. If clients got the new list too early, and no \
             run has printed `moved`, stop them, restart the nodes that are only in the new list without their data, \
             and run the same command again"
        }
        OperatorError::NotAll { .. } if causes.iter().any(|cause| matches!(cause.cause, Fault::Moved { .. })) => {
            "; if a node was left behind by an earlier move that did not finish, run that move again, and then this \
             one. If you cannot, and no client uses a list with this node, restart its server without its data"
        }
        OperatorError::NotAll { .. } => {
            "; fix that and run the same command again, and give no client the new list until the move is done"
        }
        OperatorError::OtherFleet(_) => "; is --from the list that clients have now?",
        _ => "",
    };
    let gone = causes.iter().find(|cause| is_silent(&cause.cause));
    let stand_in = gone.map_or_else(String::new, |cause| {
        let nodes = to.nodes().unwrap_or_default();
        let node = nodes.iter().find(|node| node.name() == cause.node);
        let name = node.map_or(cause.node.as_str(), Node::member);
        format!(
            ". If a node is gone for good, start an empty server, and run the command again with that server under \
             the node's name: in --to, {name}=redis://ADDRESS in place of {name}. Give clients the same list. Stop \
             the old server for good: two servers with one name are two votes"
        )
    });
    let Failure(status, why) = error.into();
    Failure(status, format!("{why}{more}{stand_in}"))
}

fn outlook(findings: &Findings) -> String {
    match findings.opens_in() {
        Some(Duration::ZERO) => "Leases are granted now.".into(),
        Some(left) => format!(
            "Leases are granted in {}, when the locks that may be held have expired. `fencing fleet recover --now` with \
             this list says when and how to end the wait.",
            about(left)
        ),
        None => "Too few nodes can grant a lease: see the lines above.".into(),
    }
}

const DEFAULT_TTL: Duration = Duration::from_secs(10);

const BEGUN: &str = "The move has begun: clients with the old list get no lease until it is done";

const IN_USE: &str = "; the nodes have been in use, and this command leaves them as they are; \
                      `fencing fleet recover --now` says when and how to end a quarantine";

const HALF_MOVED: &str = "the move from another list to this one has begun, and is not done: restart none of these \
                          nodes, and run that move again, with an empty server under the name of each node that is \
                          gone";

const LEFT_FOR_ANOTHER: &str = "nothing was changed: a node of --from has left for another list, see above. If --from \
                                is the list that clients have now, run the move to that other list again, with an \
                                empty server under the name of each node that is gone";

const NO_TTL: &str = "nothing was changed: too few nodes answer with their state. If the others hang, let them \
                      continue. If they have forgotten it, the fleet must start again, which needs every node: start \
                      those that are down, repeat this and give --ttl, the longest TTL of any client (with a shorter \
                      one, two clients may hold one lock)";

const NOW: &str = "\
--now ends each quarantine: nodes that have forgotten locks grant at once. If a client still holds
a lock that they have forgotten, two clients hold it at the same time, until the storage refuses the
older token; `fencing leases` does not show such a lock. Use --now only if all clients are stopped, or
if you know that each lease from before has ended: it expired or was released, or its holder is dead.
Add --yes to do it.";

const LOST: &str = "\
Check --from first: if it is not the list that clients have, their fleet goes on beside the new one.
--lost starts the new list although no majority of the old one answers with its state. The counts of
the old list are lost with it, so the order of the tokens depends on the nodes' clocks. Use --lost if
that majority has forgotten or is gone for good, never if it hangs. The nodes that do not answer must never serve a
client with the old list again: stop them for good. --ttl must be the longest TTL of any client.
If --to is in use already, it is not started again: the remaining nodes of --from leave for it, and
it may grant smaller tokens than --from did.
Add --ttl and --yes to do it.";
