//! `fencing release`: takes a lock from its holder.

use fencing::Resource;
use fencing::lock::redlock::NodeLock;
use fencing::lock::{Holder, sql};

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
    let resource = args.resource.clone();
    let locks: Vec<Vec<NodeLock>> = fleet
        .each(|node| {
            let resource = resource.clone();
            async move { node.lock(&resource, budget).await }
        })
        .await;
    enough(&fleet)?;
    let mut holders: Vec<NodeLock> = Vec::new();
    for lock in locks.into_iter().flatten() {
        if holders.iter().all(|other| other.value != lock.value) {
            holders.push(lock);
        }
    }
    if holders.is_empty() {
        return free(&resource);
    }
    let named = named(holders.iter().map(|lock| lock.holder.as_ref()));
    confirmed(args, &named)?;
    let seen = holders.iter().filter_map(|lock| lock.token).max();
    let values: Vec<Vec<u8>> = holders.into_iter().map(|lock| lock.value).collect();
    let taken = fleet
        .each(|node| {
            let (resource, values) = (resource.clone(), values.clone());
            async move { node.force_release(&resource, &values, seen, budget).await }
        })
        .await;
    enough(&fleet)?;
    if taken.iter().all(|taken| *taken == 0) {
        return Err(gone(&resource, &named));
    }
    let (done, size) = (fleet.nodes.len(), fleet.size);
    for (node, fault) in &fleet.faults {
        say::error(format_args!("not released there: {node}: {fault}"));
    }
    told(&format!("released {resource}, held by {named}, on {done} of {size} nodes"));
    Ok(())
}

async fn in_database(args: &Release, url: &str) -> Result<(), Failure> {
    let (pool, resource) = (pool::connect(url, false, 1).await?, &args.resource);
    let leases = on!(&pool, pool => sql::lease_of(pool, resource).await).map_err(refused)?;
    let Some(lease) = leases.first() else { return free(resource) };
    let named = named(leases.iter().map(|lease| lease.holder.as_ref()));
    confirmed(args, &named)?;
    match on!(&pool, pool => sql::force_release(pool, lease).await).map_err(refused)? {
        true => told(&format!("released {resource}, held by {named}, token {}", lease.token)),
        false => return Err(gone(resource, &named)),
    }
    Ok(())
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
        "{answered} of {size} nodes answered: that is no majority, so nobody can have the lock; run it again when \
         more do"
    );
    Err(Failure(exit::UNAVAILABLE, text))
}

fn free(resource: &Resource) -> Result<(), Failure> {
    say::out(format_args!("nobody holds {resource}\n"));
    Ok(())
}

fn confirmed(args: &Release, named: &str) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    let resource = &args.resource;
    Err(pool::usage(format_args!(
        "would release {resource}, held by {named}. {CANNOT} Add --yes to do it"
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

const CANNOT: &str = "\
This does not stop the holder: it goes on until its next renewal fails, or until its lease ends. Only a storage that \
compares tokens refuses its writes, once it has seen a newer token. Stop the holder if you can.";
