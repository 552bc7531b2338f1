//! `fencing release`: takes a lock from its holder.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencing::lock::redlock::NodeView;
use fencing::lock::{Holder, sql};
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
    let held = Held::of(&views, fleet.needed);
    if held.is_empty() {
        return free(&resource);
    }
    let tokens: Vec<Token> = held.iter().filter_map(|held| held.token).collect();
    let asked = asked(args, &Held::told(&held), &tokens)?;
    let held: Vec<Held> = held.into_iter().filter(|held| held.token == Some(asked)).collect();
    let named = Held::named(&held);
    let values: Vec<Vec<u8>> = held.into_iter().flat_map(|held| held.values).collect();
    let views = Arc::new(views);
    let taken = fleet
        .each(|node| {
            let (list, resource, values) = (list.clone(), resource.clone(), values.clone());
            let views = Arc::clone(&views);
            async move { node.force_release(&list, &resource, &values, &views, budget).await }
        })
        .await;
    for (node, fault) in &fleet.faults {
        say::error(format_args!("not released there: {node}: {fault}"));
    }
    enough(&fleet)?;
    if taken.iter().all(|taken| *taken == 0) {
        return Err(gone(&resource, &named));
    }
    let (on, told_to) = (taken.iter().filter(|taken| **taken > 0).count(), fleet.nodes.len());
    told(&format!(
        "released {resource}, held by {named}, token {asked}, on {on} nodes; {told_to} of {} do not let it back",
        fleet.size
    ));
    Ok(())
}

async fn in_database(args: &Release, url: &str) -> Result<(), Failure> {
    let (pool, resource) = (pool::connect(url, false, 1).await?, &args.resource);
    let leases = on!(&pool, pool => sql::lease_of(pool, resource).await).map_err(refused)?;
    let Some(lease) = leases.first() else { return free(resource) };
    let named = named(leases.iter().map(|lease| lease.holder.as_ref()));
    asked(args, &format!("{named}, token {}", lease.token), &[lease.token])?;
    match on!(&pool, pool => sql::force_release(pool, lease).await).map_err(refused)? {
        true => told(&format!("released {resource}, held by {named}, token {}", lease.token)),
        false => return Err(gone(resource, &named)),
    }
    Ok(())
}

/// One who holds a lock on nodes, or all who share it.
struct Held {
    values: Vec<Vec<u8>>,
    holders: Vec<Option<Holder>>,
    /// The largest token that a node knows of where it stands.
    token: Option<Token>,
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
                let none = || Held { values: vec![], holders: vec![], token: None, nodes: 0 };
                let held = all.entry((!shared).then_some(&lock.value)).or_insert_with(none);
                held.nodes += usize::from(place == 0);
                held.token = held.token.max(view.known);
                if !held.values.contains(&lock.value) {
                    held.values.push(lock.value.clone());
                    held.holders.push(lock.holder.clone());
                }
            }
        }
        let any = all.values().any(|held| held.nodes >= needed);
        all.into_values().filter(|held| !any || held.nodes >= needed).collect()
    }

    fn named(held: &[Held]) -> String {
        named(held.iter().flat_map(|held| held.holders.iter().map(Option::as_ref)))
    }

    fn told(held: &[Held]) -> String {
        let one = |held: &Held| {
            let named = named(held.holders.iter().map(Option::as_ref));
            let token = held.token.map_or_else(String::new, |token| format!(", token {token}"));
            format!("{named}{token}")
        };
        held.iter().map(one).collect::<Vec<_>>().join("; ")
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
        "{answered} of {size} nodes answered as nodes of this list: that is not a majority, so the holder may keep the \
         lock; run it again when more do"
    );
    Err(Failure(exit::UNAVAILABLE, text))
}

fn free(resource: &Resource) -> Result<(), Failure> {
    say::out(format_args!("nobody holds {resource}\n"));
    Ok(())
}

/// Returns the token that the operator has named, if it is one of those that were found. Without one nothing is
/// done: whoever holds the lock by now may be somebody else than the operator has seen.
fn asked(args: &Release, found: &str, tokens: &[Token]) -> Result<Token, Failure> {
    let resource = &args.resource;
    match args.token {
        Some(token) if args.yes && tokens.contains(&token) => Ok(token),
        Some(token) if !tokens.contains(&token) => Err(Failure(
            exit::REFUSED,
            format!("{resource} is held by {found}, not with token {token}: nothing was released"),
        )),
        _ => Err(pool::usage(format_args!(
            "would release {resource}, held by {found}. {CANNOT} Add --token with that token and --yes to do it"
        ))),
    }
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

const CANNOT: &str = "\
This does not stop the holder: it goes on until its next renewal fails, or until its lease ends. Only a storage that \
compares tokens refuses its writes, once it has seen a newer token. Stop the holder if you can.";
