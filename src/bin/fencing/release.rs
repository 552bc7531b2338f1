//! `fencing release`: takes a lock from its holder.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencing::lock::redlock::{Forced, NodeView};
use fencing::lock::{Fault, Holder, sql};
use fencing::{Resource, Token};

use crate::args::{Chosen, Release, trimmed};
use crate::leases::refused;
use crate::pool::{self, Failure, on};
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
    let fleet = Fleet::of(&urls, &args.place.namespace, budget).await;
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
    let held = Held::of(&views, fleet.needed);
    if held.is_empty() {
        return free(&resource);
    }
    let has = |token| held.iter().any(|held| held.has(token));
    let only = held.iter().filter_map(Held::own_token).next();
    asked(args, &Held::told(&held, fleet.size), has, only)?;
    let fits = |held: &Held| args.token.is_none_or(|token| held.has(token));
    let held: Vec<Held> = held.into_iter().filter(fits).collect();
    let told_of = Held::told(&held, fleet.size);
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
    let count = |which: fn(&Forced) -> bool| forced.iter().filter(|forced| which(forced)).count();
    let taken = count(|forced| matches!(forced, Forced::Taken(_)));
    let noted = count(|forced| *forced != Forced::HeldByAnother);
    if taken == 0 && forced.len() >= fleet.needed {
        return Err(gone(&resource, &told_of));
    }
    let size = fleet.size;
    if noted < fleet.needed {
        let text = format!(
            "{resource}, held by {told_of}, was released on {taken} of {size} nodes, but only {noted} of them will refuse \
             the holder's renewal: not a majority. Others may get the lock now, or the holder may keep it: run this \
             again. {CANNOT}"
        );
        return Err(Failure(exit::UNAVAILABLE, text));
    }
    told(&format!(
        "released {resource}, held by {told_of}, on {taken} of {size} nodes; {noted} of {size} will refuse the \
         holder's renewal"
    ));
    Ok(())
}

async fn in_database(args: &Release, url: &str) -> Result<(), Failure> {
    let (pool, resource) = (pool::connect(url, false, 1).await?, &args.resource);
    let leases = on!(&pool, pool => sql::lease_of(pool, resource).await).map_err(refused)?;
    let Some(lease) = leases.first() else { return free(resource) };
    let named = named(leases.iter().map(|lease| lease.holder.as_ref()));
    let found = format!("{named}, token {}", lease.token);
    asked(args, &found, |token| token == lease.token, Some(lease.token))?;
    match on!(&pool, pool => sql::force_release(pool, lease).await).map_err(refused)? {
        true => told(&format!("released {resource}, held by {named}, token {}", lease.token)),
        false => return Err(gone(resource, &named)),
    }
    Ok(())
}

/// One who holds a lock on nodes, or all who share it.
#[derive(Default)]
struct Held {
    values: Vec<Vec<u8>>,
    holders: Vec<Option<Holder>>,
    /// Its token, if it stands on a majority: the one that a majority knows of there, or else the largest. What stands on
    /// less has none yet, or none any more: whoever comes next may get the same.
    token: Option<Token>,
    known: Vec<Token>,
    nodes: usize,
}

impl Held {
    /// Puts together who holds it. What stands on less than a majority is an attempt, or what is left of a lease: it
    /// counts only where nobody has a majority.
    fn of(views: &[NodeView], needed: usize) -> Vec<Held> {
        let mut all: BTreeMap<Option<&[u8]>, Held> = BTreeMap::new();
        for view in views {
            let shared = view.locks.iter().any(|lock| lock.shared);
            for (place, lock) in view.locks.iter().enumerate() {
                let none = || Held::default();
                let held = all.entry((!shared).then_some(&lock.value)).or_insert_with(none);
                if place == 0 {
                    held.nodes += 1;
                    held.known.extend(view.known);
                }
                if !held.values.contains(&lock.value) {
                    held.values.push(lock.value.clone());
                    held.holders.push(lock.holder.clone());
                }
            }
        }
        let any = all.values().any(|held| held.nodes >= needed);
        let mut held: Vec<Held> = all.into_values().collect();
        held.retain(|held| !any || held.nodes >= needed);
        for held in held.iter_mut().filter(|_| any) {
            held.known.sort_unstable();
            let agreed = held.known.chunk_by(Token::eq).find(|same| same.len() >= needed);
            held.token = agreed.unwrap_or(&held.known).last().copied();
        }
        held
    }

    /// Returns whether it may have this token. What nodes know of no more is older than all that they do know of.
    fn has(&self, token: Token) -> bool {
        match self.own_token() {
            Some(own) => token == own,
            None => self.token.is_some_and(|era| token < era),
        }
    }

    /// Its token, unless that is from before the present era: counts begin anew with each.
    fn own_token(&self) -> Option<Token> {
        self.token.filter(|token| token.get() % COUNTS > 0)
    }

    fn told(held: &[Held], size: usize) -> String {
        let one = |held: &Held| {
            let named = named(held.holders.iter().map(Option::as_ref));
            match held.token {
                Some(era) if held.own_token().is_none() => {
                    format!("{named}, with a token below {era}, from before the present era")
                }
                Some(token) => format!("{named}, token {token}"),
                None => format!(
                    "{named} (on {} of {size} nodes: an attempt, or what is left of a lease)",
                    held.nodes
                ),
            }
        };
        held.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

/// Says why a node did not do it, or may have done it.
fn not_released(node: &str, fault: &Fault, was_asked: bool) -> String {
    match fault {
        Fault::Exhausted => format!(
            "{node}: not released: its count has run out, so it could not refuse the holder's renewal; the lock is free \
             when it expires"
        ),
        Fault::NotAdmitted | Fault::OtherFleet { .. } | Fault::Moved { .. } => {
            format!("{node}: not released: {fault}")
        }
        _ if was_asked => format!("{node}: perhaps released; it did not answer: {fault}"),
        _ => format!("{node}: not released: {fault}"),
    }
}

fn enough(fleet: &Fleet) -> Result<(), Failure> {
    if fleet.nodes.len() >= fleet.needed {
        return Ok(());
    }
    for (node, fault) in &fleet.faults {
        say::error(format_args!("{node}: {fault}"));
    }
    let (answered, size) = (fleet.nodes.len(), fleet.size);
    let text = format!(
        "{answered} of {size} nodes answered as nodes of this list: not a majority, so nothing was released; run it \
         again when more nodes answer"
    );
    Err(Failure(exit::UNAVAILABLE, text))
}

fn free(resource: &Resource) -> Result<(), Failure> {
    say::out(format_args!("nobody holds {resource}\n"));
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
    let only = only.map_or_else(String::new, |token| {
        format!(", and --token {token} so that nobody else can lose it")
    });
    Err(pool::usage(format_args!(
        "would release {resource}, held by {found}. {CANNOT} Add --yes to do it{only}"
    )))
}

fn gone(resource: &Resource, named: &str) -> Failure {
    let text = format!("{resource} is not held by {named} any more: nothing was released");
    Failure(exit::REFUSED, text)
}

fn told(done: &str) {
    say::out(format_args!("{done}\n{CANNOT}\n"));
}

fn named<'a>(holders: impl Iterator<Item = Option<&'a Holder>>) -> String {
    let one = |holder: Option<&Holder>| {
        holder.map_or_else(|| "somebody without a name".to_owned(), Holder::to_string)
    };
    holders.map(one).collect::<Vec<_>>().join(", ")
}

/// How many tokens an era has.
const COUNTS: u64 = 1_000_000;

const CANNOT: &str = "\
This does not stop the holder: it goes on until its next renewal fails (each third of its TTL), or until its lease ends. Only a storage that \
compares tokens refuses its writes, once it has seen a newer token. Stop the holder if you can.";
