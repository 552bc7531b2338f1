use std::time::Duration;

use fencing::lock::Fault;
use fencing::lock::redlock::{Node, NodeReport, OperatorError};

use super::{DEFAULT_TTL, HALF_MOVED, check_clocks, outlook};
use crate::duration;
use crate::exit::Failure;
use crate::findings::{self, Finding, Findings, NodeBudget};
use crate::lock_service::{NAMESPACE, Redis};
use crate::nodes::verdict;
use crate::say;

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

pub(super) async fn move_fleet(args: &MoveArgs) -> Result<(), Failure> {
    Failure::usage_unless(!args.lost || args.yes && args.ttl.is_some(), LOST)?;
    let ttl = args.ttl.unwrap_or(DEFAULT_TTL);
    let budget = args.budget.within(ttl);
    let redis = |urls: &String| Redis { urls: urls.clone(), namespace: args.namespace.clone() };
    let (from, to) = (redis(&args.from), redis(&args.to));
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
    if now.is_moving() && now.members() < if args.lost { 1 } else { now.needed() } {
        now.print();
        return Err(Failure::unavailable(format_args!("--from: {HALF_MOVED}")));
    }
    let target = findings::ask(&to, budget).await?;
    let is_at_work = target.admitted() >= target.needed();
    if !args.lost {
        check_left(&now, &target)?;
    } else if !is_at_work {
        let is_known =
            |list: &Vec<String>| list.is_empty() || [&now.fleet, &new_list].iter().any(|it| it.members().eq(list));
        let known = |it: &NodeReport| !it.remembers() || is_known(&it.fleet) && is_known(&it.moved_to);
        if !now.nodes.iter().filter_map(|it| it.report.as_ref()).all(known) {
            now.print();
            return Err(Failure::refused(IN_ANOTHER));
        }
        check_clocks(&target)?;
    }
    say::out(format_args!(
        "moving {} to {}; clients with the old list get no lease once the move has begun\n",
        now.fleet, new_list
    ));
    let moved = if args.lost { old.move_lost_to(&new).await } else { old.move_to(&new).await };
    if let Err(error) = moved {
        let now = findings::ask(&from, budget).await?;
        let is_done = matches!(error, OperatorError::NotLeft { .. } | OperatorError::BothInUse);
        let has_begun = !is_done && now.nodes.iter().any(|node| node.has_left_for(&new_list));
        return Err(advised(error, &to).with_more(if has_begun { BEGUN } else { "" }));
    }
    let new = findings::ask(&to, budget).await?;
    new.print();
    say::out(format_args!(
        "moved. {}\nGive every client the new list now: {}\nExporters and timers need it, too.\n",
        outlook(&new),
        say::without_passwords(&args.to).replace("***@", "USER:PASSWORD@")
    ));
    if is_at_work {
        say::out(
            "The new list was in use before this run. If no earlier run started it, a client did, with the list too \
             early, and two clients may have held one lease.\n",
        );
    }
    say_what_is_left(&findings::ask(&from, budget).await?, &new, args.lost);
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
             changed. Is --from the list that clients have now? If so, let those that hang continue, and bring back \
             those that have forgotten (`fencing fleet recover --ttl LONGEST`); if they are gone for good, see --lost"
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
    let gone = causes.iter().find(|cause| cause.cause.is_silent());
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
    Failure::from(error).with_more(format_args!("{more}{stand_in}"))
}

const BEGUN: &str = ". The move has begun: clients with the old list get no lease until it is done";

const LEFT_FOR_ANOTHER: &str = "nothing was changed: a node of --from has left for another list, see above. If --from \
                                is the list that clients have now, run the move to that other list again, with an \
                                empty server under the name of each node that is gone";

const IN_ANOTHER: &str = "nothing was changed: a node of --from belongs to another list, or has left for it, see above; is \
                          --from the list that clients have now? If a move to that list has begun, run it again";

const LOST: &str = "\
Check --from first: if it is not the list that clients have, their fleet goes on beside the new one.
--lost starts the new list although no majority of the old one answers with its state. The counts of
the old list are lost with it, so the order of the tokens depends on the nodes' clocks. Use --lost if
that majority has forgotten or is gone for good, never if it hangs. The nodes that do not answer must never serve a
client with the old list again: stop them for good. --ttl must be the longest TTL of any client.
If --to is in use already, it is not started again: the remaining nodes of --from leave for it, and
it may grant smaller tokens than --from did.
Add --ttl and --yes to do it.";
