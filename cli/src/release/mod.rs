//! `fencing release`: takes a lock from its holder.

mod ending;
mod held;

use std::sync::Arc;

use fencing::lock::redlock::{Forced, NodeView};
use fencing::lock::{Fault, sql};
use fencing::{Resource, Token};

use self::ending::{Answers, Ending};
use self::held::{Held, named};
use crate::args::{Chosen, Release, trimmed};
use crate::leases::refused;
use crate::pool::{self, Failure, answer, on};
use crate::standing::Fleet;
use crate::{exit, say};

/// Releases the lock, or says what it would do.
pub(crate) async fn main(args: Release) -> u8 {
    let released = match args.place.chosen() {
        Ok(Chosen::Redis(urls)) => on_nodes(&args, &urls).await,
        Ok(Chosen::Database(url)) => in_database(&args, url.trim()).await,
        Err(error) => Err(pool::usage(error)),
    };
    match released {
        Ok(()) => 0,
        Err(Failure(status, text)) => {
            say::error(say::without_passwords(&text));
            status
        }
    }
}

async fn on_nodes(args: &Release, urls: &[String]) -> Result<(), Failure> {
    let (urls, budget): (Vec<&str>, _) = (trimmed(urls).collect(), args.node_budget);
    let fleet = Fleet::of(&urls, args.place.namespace(), budget).await;
    let mut fleet = fleet.map_err(pool::usage)?;
    let (resource, list) = (args.resource.clone(), fleet.list.clone());
    let views: Vec<NodeView> = fleet
        .each(|node| {
            let (list, resource) = (list.clone(), resource.clone());
            async move { node.lock(&list, &resource, budget).await }
        })
        .await;
    enough(&fleet)?;
    let not_asked = fleet.faults.len();
    let (remember, size) = (fleet.remembering(), fleet.size);
    let held = Held::of(&views, fleet.needed, |nodes| fleet.may_be_held(nodes));
    if held.is_empty() && fleet.may_be_held(0) {
        return Err(forgotten(&resource, &fleet));
    }
    if held.is_empty() {
        return free(&resource);
    }
    let has = |token| held.iter().any(|held| held.has(token));
    let only = held.iter().filter_map(Held::own_token).next();
    let found = Held::told(&held, remember, size);
    if let Some(token) = args.token
        && held.iter().any(|held| held.perhaps)
    {
        return Err(unclear(args, token, &found));
    }
    asked(args, &found, has, only)?;
    let fits = |held: &Held| args.token.is_none_or(|token| held.has(token));
    let held: Vec<Held> = held.into_iter().filter(fits).collect();
    let told_of = Held::told(&held, remember, size);
    let values: Vec<_> = held.into_iter().flat_map(|held| held.values).collect();
    let views = Arc::new(views);
    let forced = fleet
        .each(|node| {
            let (list, resource, values) = (list.clone(), resource.clone(), values.clone());
            let views = Arc::clone(&views);
            async move { node.force_release(&list, &resource, &values, &views, budget).await }
        })
        .await;
    for (place, (node, fault)) in fleet.faults.iter().enumerate() {
        say::error(not_released(node, fault, place >= not_asked));
    }
    for ((node, _), forced) in fleet.nodes.iter().zip(&forced) {
        if *forced == Forced::HeldByAnother {
            say::error(format_args!("{node}: another client holds the lock there, and keeps it"));
        }
    }
    let silent =
        fleet.faults.iter().skip(not_asked).filter(|(_, fault)| !is_refusal(fault)).count();
    let answers = Answers::of(&forced, silent);
    let Answers { taken, noted, others, .. } = answers;
    let text = match answers.ending(fleet.needed) {
        Ending::Released => {
            told(&format!(
                "released {resource}, held by {told_of}, on {taken} of {size} nodes; {noted} of {size} will refuse the \
                 holder's renewal"
            ));
            return Ok(());
        }
        Ending::Gone => return Err(gone(&resource, &told_of, taken)),
        Ending::Unknown => format!(
            "it is not known whether {resource}, held by {told_of}, was released: {silent} of {size} nodes did not answer. \
             {LOOK}"
        ),
        Ending::TooFew => {
            let next = if others > 0 { LOOK } else { "Run this again." };
            format!(
                "{resource}, held by {told_of}, was released on {taken} of {size} nodes, but only {noted} of them will \
                 refuse the holder's renewal: not a majority. Others may get the lock now, or the holder may keep it. \
                 {next} {CANNOT}"
            )
        }
    };
    Err(Failure(exit::UNAVAILABLE, text))
}

async fn in_database(args: &Release, url: &str) -> Result<(), Failure> {
    let (pool, resource) = (pool::connect(url, false, 1).await?, &args.resource);
    let leases = on!(&pool, pool => answer(sql::lease_of(pool, resource)).await);
    let leases = leases.map_err(refused)?;
    let Some(lease) = leases.first() else { return free(resource) };
    let named = named(leases.iter().map(|lease| lease.holder.as_ref()));
    let found = format!("{named}, token {}", lease.token);
    asked(args, &found, |token| token == lease.token, Some(lease.token))?;
    match on!(&pool, pool => answer(sql::force_release(pool, lease)).await) {
        Ok(true) => told(&format!("released {resource}, held by {named}, token {}", lease.token)),
        Ok(false) => return Err(gone(resource, &named, 0)),
        Err(fault @ (Fault::TimedOut | Fault::Disconnected(_))) => {
            let text = format!(
                "{resource} was perhaps released; the database did not answer: {fault}. {LOOK}"
            );
            return Err(Failure(exit::UNAVAILABLE, text));
        }
        Err(fault) => return Err(refused(fault)),
    }
    Ok(())
}

/// Says why a node did not do it, or may have done it.
fn not_released(node: &str, fault: &Fault, was_asked: bool) -> String {
    match fault {
        Fault::Exhausted => format!(
            "{node}: not released: its count has run out, so it could not refuse the holder's renewal; the lock is free \
             when it expires"
        ),
        _ if was_asked && !is_refusal(fault) => {
            format!("{node}: perhaps released; it did not answer: {fault}")
        }
        _ => format!("{node}: not released: {fault}"),
    }
}

/// Returns whether the node says that it has done nothing.
fn is_refusal(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Exhausted | Fault::NotAdmitted | Fault::OtherFleet { .. } | Fault::Moved { .. }
    )
}

fn enough(fleet: &Fleet) -> Result<(), Failure> {
    if fleet.nodes.len() >= fleet.needed {
        return Ok(());
    }
    for (node, fault) in &fleet.faults {
        say::error(format_args!("{node}: {fault}"));
    }
    let (answered, size) = (fleet.nodes.len(), fleet.size);
    let other = |fault: &Fault| matches!(fault, Fault::OtherFleet { .. } | Fault::Moved { .. });
    let next = match fleet.faults.iter().any(|(_, fault)| other(fault)) {
        true => "is it the list that the clients have?",
        false => "run it again when more nodes answer",
    };
    let text = format!(
        "{answered} of {size} nodes answered as nodes of this list: not a majority, so nothing was released; {next}"
    );
    Err(Failure(exit::UNAVAILABLE, text))
}

/// The lock is on no node that remembers, and they are too few to say that it is free.
fn forgotten(resource: &Resource, fleet: &Fleet) -> Failure {
    let (remember, size) = (fleet.remembering(), fleet.size);
    let text = format!(
        "nothing was released: {remember} of {size} nodes remember, and none of them has {resource}. The others may have \
         forgotten it, so it may be held; it ends with their quarantine"
    );
    Failure(exit::UNAVAILABLE, text)
}

fn free(resource: &Resource) -> Result<(), Failure> {
    say::out(format_args!("nobody holds {resource}\n"));
    if resource.as_str().contains(['*', '?']) {
        say::error("--resource is one name here, not a pattern");
    }
    Ok(())
}

/// Refuses where the operator has not said yes, or has named another token than those that were found.
fn asked(
    args: &Release,
    found: &str,
    has: impl Fn(Token) -> bool,
    only: Option<Token>,
) -> Result<(), Failure> {
    let resource = &args.resource;
    if let Some(token) = args.token.filter(|token| !has(*token)) {
        let text = format!(
            "nothing was released: {resource} has no lease with token {token}; it is held by {found}"
        );
        return Err(Failure(exit::REFUSED, text));
    }
    if args.yes {
        return Ok(());
    }
    let only = only.filter(|_| args.token.is_none()).map_or_else(String::new, |token| {
        format!(", and --token {token} so that nobody else can lose it")
    });
    Err(pool::usage(format_args!(
        "would release {resource}, held by {found}. {CANNOT} Add --yes to do it{only}"
    )))
}

/// Refuses where nodes that do not answer may have the lease of this token.
fn unclear(args: &Release, token: Token, found: &str) -> Failure {
    let text = format!(
        "nothing was released: the nodes that remember do not show whether token {token} is that of the lease of {}; it is \
         held by {found}. Run it again when more nodes do",
        args.resource
    );
    Failure(exit::UNAVAILABLE, text)
}

/// The lock is another client's, or free. On less than a majority of the nodes something may have been taken all the same.
fn gone(resource: &Resource, named: &str, taken: usize) -> Failure {
    let text = match taken {
        0 => format!("{resource} is not held by {named} any more: nothing was released"),
        _ => format!(
            "{resource} is held by another client now, which keeps it; what {named} still had on {taken} nodes was released"
        ),
    };
    Failure(exit::REFUSED, text)
}

fn told(done: &str) {
    say::out(format_args!("{done}\n{CANNOT}\n"));
}

const LOOK: &str = "Look who holds it now: run this again without --yes.";
const CANNOT: &str = "\
This does not stop the holder: it goes on until its next renewal fails (each third of its TTL), or until its lease ends. Only a storage that \
compares tokens refuses its writes, once it has seen a newer token. Stop the holder if you can.";
