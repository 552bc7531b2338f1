mod relocation;

use std::time::{Duration, UNIX_EPOCH};

use clap::Subcommand;
use fencing::lock::NodeCause;
use fencing::lock::redlock::NodeOutcomes;

use self::relocation::{MoveArgs, move_fleet};
use crate::duration::{self, about};
use crate::exit::{Failure, Status};
use crate::findings::{self, Finding, Findings, NodeBudget, clock_fault};
use crate::lock_service::Redis;
use crate::nodes::verdict;
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

pub(crate) async fn main(action: FleetAction) -> Result<Status, Failure> {
    let mut signals = Signals::listen()?;
    let done = async {
        match &action {
            FleetAction::Init { redis, budget } => init(redis, budget).await,
            FleetAction::Recover(args) => recover(args).await,
            FleetAction::Move(args) => move_fleet(args).await,
        }
    };
    tokio::select! {
        biased;
        signal = signals.next() => {
            let why = "interrupted by a signal: run the same command again, and give no client the new list of an \
                       unfinished move";
            Err(Failure::new(Status::by_signal(signal.as_raw()), why))
        }
        done = done => done.map(|()| Status::DONE),
    }
}

async fn init(redis: &Redis, budget: &NodeBudget) -> Result<(), Failure> {
    let budget = budget.within(DEFAULT_TTL);
    let before = findings::ask(redis, budget).await?;
    if before.is_moving() && before.members() < before.needed() {
        before.print();
        return Err(Failure::unavailable(HALF_MOVED));
    }
    redis.builder().ttl(DEFAULT_TTL).node_budget(budget).build()?.operator().init().await?;
    let findings = findings::ask(redis, budget).await?;
    findings.print();
    verdict(&findings).map_err(|failure| {
        let is_closed = findings.count(|node| node.quarantine().is_some()) > 0;
        let more = if is_closed && findings.admitted() >= findings.needed() { IN_USE } else { "" };
        failure.with_more(more)
    })
}

async fn recover(args: &RecoverArgs) -> Result<(), Failure> {
    Failure::usage_unless(args.yes || !args.now, NOW)?;
    let ttl = args.ttl.unwrap_or(DEFAULT_TTL);
    let budget = args.budget.within(ttl);
    let operator = args.redis.builder().ttl(ttl).node_budget(budget).build()?.operator();
    let before = findings::ask(&args.redis, budget).await?;
    let starts = before.members() < before.needed() && !before.is_moving() && before.count(Finding::is_elsewhere) == 0;
    // Nodes that do not answer now may do so in a moment, without their locks.
    if starts && args.ttl.is_none() && !args.now {
        before.print();
        return Err(match before.count(|it| it.report.is_some()) {
            0 => return verdict(&before),
            answer if answer < before.nodes.len() => Failure::unavailable(NO_TTL),
            _ => Failure::usage(NO_TTL),
        });
    }
    if starts {
        check_clocks(&before)?;
    }
    let done = operator.admit().await;
    let opened = if args.now { Some(operator.open().await) } else { None };
    let findings = findings::ask(&args.redis, budget).await?;
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
    if findings.opens_in().is_none() {
        return verdict(&findings);
    }
    if before.members() >= before.needed() && args.ttl.is_some() {
        say::out("--ttl was not needed: the fleet is started already\n");
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

const IN_USE: &str = "; the nodes have been in use, and this command leaves them as they are; \
                      `fencing fleet recover --now` says when and how to end a quarantine";

const HALF_MOVED: &str = "the move from another list to this one has begun, and is not done: restart none of these \
                          nodes, and run that move again, with an empty server under the name of each node that is \
                          gone";

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
