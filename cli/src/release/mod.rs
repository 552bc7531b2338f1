mod nodes;

use std::time::Duration;

use fencing::lock::redlock::NodeView;
use fencing::lock::{Fault, Operator};
use fencing::{Resource, Token};
use tokio::time::timeout;

use self::nodes::{LockHolders, NodeAnswers, named};
use crate::exit::Failure;
use crate::findings::NodeBudget;
use crate::place::{Chosen, LockPlace, Redis};
use crate::pool::{ANSWER_TIMEOUT, answer};
use crate::say;
use crate::voters::{Turnout, Voters, print_faults};

/// Takes a lock from its holder by force, so that others can acquire it at once.
///
/// It cannot stop the holder: two clients may believe that they hold the lock, until the holder's next renewal fails.
/// All who share a lock lose it. Without --token, the client that holds it when the command runs loses it.
///
/// Nodes record it in the sorted set {NAMESPACE}:audit, a database in fencing_audit, etcd and ZooKeeper nowhere.
#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    place: LockPlace,
    /// The resource: one name, no pattern.
    #[arg(long, value_name = "NAME")]
    resource: Resource,
    #[command(flatten)]
    budget: NodeBudget,
    /// The token of the lease to end, as shown without --yes. If the lock has another by now, nothing is done. If "a
    /// token below N" is shown, give any below N. A lock on less than a majority has no token.
    #[arg(long, value_name = "TOKEN")]
    token: Option<Token>,
    /// Confirms the release. Without this, the command only prints what it would do.
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn main(args: ReleaseArgs) -> Result<u8, Failure> {
    let done = match args.place.chosen(false)? {
        Chosen::Redis(redis) => on_nodes(&args, &redis).await?,
        service => in_service(&args, &*service.operator().await?).await?,
    };
    match done {
        Some(done) => say::out(format_args!("{done}\n{HOLDER_GOES_ON}\n")),
        None => {
            say::out(format_args!("nobody holds {}\n", args.resource));
            if args.resource.as_str().contains(['*', '?']) {
                say::error("--resource is one name here, not a pattern");
            }
        }
    }
    Ok(0)
}

async fn on_nodes(args: &ReleaseArgs, redis: &Redis) -> Result<Option<String>, Failure> {
    let (resource, budget) = (&args.resource, args.budget.within(Duration::MAX));
    let mut voters = Voters::of(redis, budget).await?;
    let list = voters.list.clone();
    let views: Vec<NodeView> = voters.each(async |node| node.lock(&list, resource, budget).await).await;
    check_majority(&voters)?;
    let (turnout, not_asked) = (voters.turnout(), voters.faults.len());
    let Turnout { remember, size, .. } = turnout;
    let mut holders = LockHolders::of(&views, turnout);
    if holders.is_empty() {
        let why = format_args!(
            "nothing was released: {remember} of {size} nodes remember, and none of them has {resource}. The others \
             may have forgotten it, so it may be held until their quarantine ends"
        );
        return if turnout.may_be_held(0) { Err(Failure::unavailable(why)) } else { Ok(None) };
    }
    let found = LockHolders::describe(&holders, turnout);
    if let Some(token) = args.token
        && holders.iter().any(|holders| holders.uncertain)
    {
        return Err(Failure::unavailable(format_args!(
            "nothing was released: too few nodes remember to tell whether token {token} is that of the lease of \
             {resource}; it is held by {found}. Run it without --token, or again when more nodes remember"
        )));
    }
    holders.retain(|holders| args.token.is_none_or(|token| holders.has(token)));
    check_agreed(args, &found, !holders.is_empty(), holders.iter().find_map(LockHolders::own_token))?;
    let found = LockHolders::describe(&holders, turnout);
    let values: Vec<_> = holders.into_iter().flat_map(|holders| holders.parts.into_keys()).collect();
    let forced = voters.each(async |node| node.force_release(&list, resource, &values, &views, budget).await).await;
    NodeAnswers::of(&voters, &forced, not_asked).outcome(resource, &found, turnout).map(Some)
}

async fn in_service(args: &ReleaseArgs, service: &dyn Operator) -> Result<Option<String>, Failure> {
    let resource = &args.resource;
    let leases = answer(service.leases_of(resource)).await?;
    // Of several that share it, the latest has the token of all, or the largest.
    let Some(lease) = leases.iter().max_by_key(|lease| lease.token) else { return Ok(None) };
    let named = named(leases.iter().map(|lease| lease.holder.as_ref()));
    let found = format!("{named}, token {}", lease.token);
    check_agreed(args, &found, args.token.is_none_or(|token| token == lease.token), Some(lease.token))?;
    let released = timeout(ANSWER_TIMEOUT, service.force_release(lease)).await;
    match released.unwrap_or(Err(Fault::TimedOut)) {
        Ok(true) => Ok(Some(format!("released {resource}, held by {found}"))),
        Ok(false) => Err(gone(resource, &named, 0)),
        Err(fault @ (Fault::TimedOut | Fault::Disconnected(_))) => Err(Failure::unavailable(format_args!(
            "{resource} was perhaps released; the lock service did not answer: {fault}. {LOOK}"
        ))),
        Err(fault) => Err(fault.into()),
    }
}

fn check_majority(voters: &Voters) -> Result<(), Failure> {
    let mut faults = voters.faults.iter();
    let elsewhere = faults.any(|(_, fault)| matches!(fault, Fault::OtherFleet { .. } | Fault::Moved { .. }));
    let next = if elsewhere {
        "do the clients use this list?"
    } else {
        "run it again when a majority is admitted (see `fencing nodes`)"
    };
    let so = format!("nothing was released; {next}");
    voters.turnout().check_majority(&so).inspect_err(|_| print_faults(&voters.faults))
}

/// Refuses without --yes, or if the lock does not have the given token. `only` is the token that it has.
fn check_agreed(args: &ReleaseArgs, found: &str, is_there: bool, only: Option<Token>) -> Result<(), Failure> {
    let resource = &args.resource;
    if let Some(token) = args.token.filter(|_| !is_there) {
        return Err(Failure::refused(format_args!(
            "nothing was released: {resource} has no lease with token {token}; it is held by {found}"
        )));
    }
    let only = only.filter(|_| args.token.is_none());
    let only = only.map(|token| format!(", and --token {token} so that no other client can lose it"));
    let only = only.unwrap_or_default();
    let what = format!("release {resource}, held by {found}. {HOLDER_GOES_ON}");
    Failure::unless(args.yes, format_args!("would {what} Add --yes to do it{only}"))
}

/// The lock is another client's, or free. It may have been released on less than a majority of the nodes.
fn gone(resource: &Resource, named: &str, taken: usize) -> Failure {
    Failure::refused(match taken {
        0 => format!("{resource} is not held by {named} any more: nothing was released"),
        _ => format!(
            "another client now holds {resource}, and keeps it; {named} still had it on {taken} nodes, and lost it \
             there"
        ),
    })
}

const LOOK: &str = "To see the present holder, run this again without --yes.";
const HOLDER_GOES_ON: &str = "\
This does not stop the holder: it continues until its next renewal fails (each third of its TTL), or until its lease \
ends. Only storage that compares tokens refuses its writes, once it has seen a newer token. Stop the holder if you \
can.";
