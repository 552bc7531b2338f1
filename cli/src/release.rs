use std::collections::BTreeMap;
use std::time::Duration;

use fencing::lock::redlock::{Forced, NodeView, RedisNode};
use fencing::lock::{Fault, Holder, Operator};
use fencing::{Resource, Token};
use fencing_protocol::Stamp;
use tokio::time::timeout;

use crate::exit::{Failure, Status};
use crate::findings::{self, Findings, NodeBudget, Turnout, print_faults};
use crate::lock_service::{LockService, LockUrl, Redis};
use crate::pool::{ANSWER_TIMEOUT, with_timeout};
use crate::say;

/// Takes a lock from its holder by force, so that others can acquire it at once.
///
/// It cannot stop the holder: two clients may believe that they hold the lock, until the holder's next renewal fails.
/// All who share a lock lose it. Without --token, the client that holds it when the command runs loses it.
///
/// Nodes record it in the sorted set {NAMESPACE}:audit, a database in fencing_audit, etcd and ZooKeeper nowhere.
#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    lock: LockUrl,
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

pub(crate) async fn main(args: ReleaseArgs) -> Result<Status, Failure> {
    let done = match args.lock.chosen()? {
        LockService::Redis(redis) => on_nodes(&args, &redis).await?,
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
    Ok(Status::DONE)
}

async fn on_nodes(args: &ReleaseArgs, redis: &Redis) -> Result<Option<String>, Failure> {
    let (resource, budget) = (&args.resource, args.budget.within(Duration::MAX));
    let mut nodes = findings::ask(redis, budget).await?;
    let list = nodes.fleet.clone();
    let views: Vec<NodeView> = nodes.ask_voters(async |node| node.lock(&list, resource, budget).await).await;
    let (turnout, not_asked) = (nodes.turnout(), nodes.faults());
    let Turnout { remember, size, .. } = turnout;
    let next = match not_asked.iter().any(|(_, fault)| fault.is_elsewhere()) {
        true => "do the clients use this list?",
        false => "run it again when a majority is admitted (see `fencing nodes`)",
    };
    let so = format!("nothing was released; {next}");
    turnout.check_majority(&so).inspect_err(|_| print_faults(&not_asked))?;
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
    let release = async |node: &RedisNode| node.force_release(&list, resource, &values, &views, budget).await;
    let forced = nodes.ask_voters(release).await;
    NodeAnswers::of(&nodes, &forced, &not_asked).outcome(resource, &found, turnout).map(Some)
}

async fn in_service(args: &ReleaseArgs, service: &dyn Operator) -> Result<Option<String>, Failure> {
    let resource = &args.resource;
    let leases = with_timeout(service.leases_of(resource)).await?;
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
            "{resource} may have been released: the lock service did not answer: {fault}. {LOOK}"
        ))),
        Err(fault @ Fault::Denied(_)) => Err(Failure::refused(format_args!(
            "the lock service: {fault}. In a database only the owner of the tables may do this, in SQLite who may write \
             the file and its folder: run it as that user"
        ))),
        Err(fault) => Err(fault.into()),
    }
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
    Failure::usage_unless(args.yes, format_args!("would {what} Add --yes to do it{only}"))
}

/// The lock is another client's, or free. It may have been released on less than a majority of the nodes.
fn gone(resource: &Resource, named: &str, taken: usize) -> Failure {
    Failure::refused(match taken {
        0 => format!("{resource} is not held by {named} any more: nothing was released"),
        _ => format!(
            "another client now holds {resource}, and keeps it; {named} had it on {taken} nodes, and lost it there"
        ),
    })
}

/// The holder of a lock on nodes, or all who share it.
struct LockHolders {
    /// The value of the lock on the nodes, and its holder: more than one where they share it.
    parts: BTreeMap<Vec<u8>, Option<Holder>>,
    /// What a majority says, or else the largest. `None` if fewer have the lock: the next client may get this token.
    token: Option<Token>,
    nodes: usize,
    /// Whether a majority may have the lock: nodes that have not answered, or have forgotten locks, may have had it.
    uncertain: bool,
}

impl LockHolders {
    /// Collects the holders of the lock. One on less than a majority counts only if no client has a majority.
    fn of(views: &[NodeView], turnout: Turnout) -> Vec<LockHolders> {
        let mut all: BTreeMap<Option<&[u8]>, Vec<&NodeView>> = BTreeMap::new();
        for view in views {
            let Some(first) = view.locks.first() else { continue };
            all.entry((!first.shared).then_some(&first.value)).or_default().push(view);
        }
        let any = all.values().any(|views| views.len() >= turnout.needed);
        all.retain(|_, views| !any || views.len() >= turnout.needed);
        let holders_of = |views: Vec<&NodeView>| {
            let mut known: Vec<Token> = views.iter().filter_map(|view| view.known).collect();
            let token = turnout.agreed(&mut known).or(known.last().copied()).filter(|_| any);
            let locks = views.iter().flat_map(|view| &view.locks);
            let parts = locks.map(|lock| (lock.value.clone(), lock.holder.clone())).collect();
            let nodes = views.len();
            let uncertain = !any && turnout.may_be_held(nodes);
            LockHolders { parts, token, nodes, uncertain }
        };
        all.into_values().map(holders_of).collect()
    }

    /// Returns whether the lock may have this token. Forgotten tokens are older than all known ones.
    fn has(&self, token: Token) -> bool {
        if let Some(own) = self.own_token() { token == own } else { self.token.is_some_and(|era| token < era) }
    }

    /// The token, unless it is from before the present era: counts start again with each.
    fn own_token(&self) -> Option<Token> {
        self.token.filter(|token| Stamp::from(*token).count > 0)
    }

    fn describe(all: &[LockHolders], turnout: Turnout) -> String {
        let Turnout { remember, size, .. } = turnout;
        let one = |holders: &LockHolders| {
            let (named, nodes) = (named(holders.parts.values().map(Option::as_ref)), holders.nodes);
            match holders.token {
                Some(era) if holders.own_token().is_none() => {
                    format!("{named}, with a token below {era}, from before the present era")
                }
                Some(token) => format!("{named}, token {token}"),
                None if holders.uncertain => {
                    format!("perhaps {named} (seen on {nodes} of {remember} nodes that remember, of {size})")
                }
                None => format!("{named} (on {nodes} of {size} nodes: an unfinished attempt, or an ending lease)"),
            }
        };
        say::listed(all.iter().map(one), "; ")
    }
}

fn named<'a>(holders: impl Iterator<Item = Option<&'a Holder>>) -> String {
    let one = |holder: Option<&Holder>| holder.map_or_else(|| "an unnamed holder".to_owned(), Holder::to_string);
    say::listed(holders.map(one), ", ")
}

#[derive(Debug, Default, Clone, Copy)]
struct NodeAnswers {
    taken: usize,
    free: usize,
    /// Number of nodes on which another client holds the lock, and keeps it.
    others: usize,
    /// Number of nodes that have not answered: they may have done it.
    silent: usize,
}

impl NodeAnswers {
    /// Counts them, and says which nodes have not released it. Those that were `not_asked` have the same faults as then.
    fn of(nodes: &Findings, forced: &[Forced], not_asked: &[(String, Fault)]) -> NodeAnswers {
        let mut answers = NodeAnswers::default();
        for failed @ (node, fault) in &nodes.faults() {
            say::error(match fault {
                Fault::Exhausted => format!(
                    "{node}: not released: its count has run out, so it could not refuse the holder's renewal; the \
                     lock is free when it expires"
                ),
                _ if not_asked.contains(failed) || *fault == Fault::NotAdmitted || fault.is_elsewhere() => {
                    format!("{node}: not released: {fault}")
                }
                _ => {
                    answers.silent += 1;
                    format!("{node}: perhaps released; it did not answer: {fault}")
                }
            });
        }
        for (voter, forced) in nodes.voters().zip(forced) {
            match forced {
                Forced::Taken(_) => answers.taken += 1,
                Forced::Free => answers.free += 1,
                _ => {
                    answers.others += 1;
                    let node = &voter.node;
                    say::error(format_args!("{node}: another client holds the lock there, and keeps it"));
                }
            }
        }
        answers
    }

    /// Says whether the lock, `held` by these clients, was released.
    fn outcome(self, resource: &Resource, held: &str, turnout: Turnout) -> Result<String, Failure> {
        let (NodeAnswers { taken, free, others, silent }, Turnout { needed, size, .. }) = (self, turnout);
        // They refuse the holder's renewal now.
        let noted = taken + free;
        let nobody_had_it = taken == 0 && silent == 0 && free + others >= needed;
        if others >= needed || nobody_had_it {
            return Err(gone(resource, held, taken));
        }
        if taken > 0 && noted >= needed {
            return Ok(format!(
                "released {resource}, held by {held}, on {taken} of {size} nodes; {noted} of {size} will refuse the \
                 holder's renewal"
            ));
        }
        Err(Failure::unavailable(if taken == 0 && silent > 0 {
            format!(
                "it is not known whether {resource}, held by {held}, was released: {silent} of {size} nodes did not \
                 answer. {LOOK}"
            )
        } else {
            let next = if others > 0 { LOOK } else { "Run this again." };
            format!(
                "{resource}, held by {held}, was released on {taken} of {size} nodes, but only {noted} of them will \
                 refuse the holder's renewal: not a majority. Others may get the lock now, or the holder may keep it. \
                 {next} {HOLDER_GOES_ON}"
            )
        }))
    }
}

const LOOK: &str = "To see the present holder, run this again without --yes.";
const HOLDER_GOES_ON: &str = "\
This does not stop the holder: it continues until its next renewal fails (each third of its TTL), or until its lease \
ends. Only storage that compares tokens refuses its writes, once it has seen a newer token. Stop it if you can.";

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of what is said.
    const RELEASED: &str = "released r, held by h, on ";
    const GONE: &str = "r is not held by h any more: nothing was released";
    const OTHERS: &str = "another client now holds r, and keeps it; h had it on ";
    const UNKNOWN: &str = "it is not known whether r, held by h, was released: ";
    const TOO_FEW: &str = "r, held by h, was released on ";

    #[test]
    fn three_nodes_decide() {
        let (resource, turnout) =
            (Resource::new("r").unwrap(), Turnout { answered: 5, remember: 5, needed: 3, size: 5 });
        for ([taken, free, others, silent], said) in [
            // They have released it, or refuse the holder.
            ([5, 0, 0, 0], RELEASED),
            ([1, 2, 0, 2], RELEASED),
            ([2, 1, 2, 0], RELEASED),
            ([2, 0, 0, 3], TOO_FEW),
            ([2, 0, 2, 1], TOO_FEW),
            // Another client keeps it. What was left of an old lease may be taken from beside it.
            ([0, 0, 5, 0], GONE),
            ([2, 0, 3, 0], OTHERS),
            ([0, 0, 3, 2], GONE),
            // Those that have not answered may have released it.
            ([0, 5, 0, 0], GONE),
            ([0, 2, 2, 0], GONE),
            ([0, 3, 0, 2], UNKNOWN),
            ([0, 0, 0, 5], UNKNOWN),
            // All have refused.
            ([0, 0, 0, 0], TOO_FEW),
        ] {
            let answers = NodeAnswers { taken, free, others, silent };
            let outcome = answers.outcome(&resource, "h", turnout);
            assert_eq!(outcome.is_ok(), said == RELEASED, "{answers:?}");
            let text = outcome.unwrap_or_else(|failure| failure.message);
            assert!(text.starts_with(said), "{answers:?}: {text}");
        }
    }
}
