use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;

use crate::allocations::{begin, end};
use crate::contestant::Contestant;
use crate::fleet;
use crate::table::{Table, micros};

const PAIRS: usize = 100;
/// Of which the allocations are counted.
const COUNTED: usize = 500;
/// Whose tokens are published, in one round.
const PUBLISHED: usize = 20;

pub type Times = Vec<(&'static str, Vec<Duration>)>;

/// One task, one resource, one pair after another.
pub async fn measure(nodes: usize, rounds: usize, table: &mut Table) {
    let (_servers, contestants) = fleet::of_all(nodes).await;
    table.times(&mut rounds_of(&contestants, rounds, |_| PAIRS).await);
}

/// Runs interleaved rounds, with this many pairs of each contestant in a round.
pub async fn rounds_of(contestants: &[Contestant], rounds: usize, pairs: impl Fn(&Contestant) -> usize) -> Times {
    let mut times: Times = contestants.iter().map(|each| (each.name(), Vec::new())).collect();
    for turn in 0..rounds * contestants.len() {
        // Each goes first in its turn.
        let which = (turn / contestants.len() + turn) % contestants.len();
        for _ in 0..pairs(&contestants[which]) {
            times[which].1.push(pair(&contestants[which]).await);
        }
    }
    times
}

/// Allocations of one pair on five nodes, what it leaves to background tasks included.
pub async fn allocations(table: &mut Table) {
    let (_servers, contestants) = fleet::of_all(5).await;
    let mut figures = Vec::new();
    for contestant in &contestants {
        begin();
        for _ in 0..COUNTED {
            contestant.pair("invoice/42").await;
        }
        figures.push((contestant.name(), end().0 as f64 / COUNTED as f64));
    }
    table.figure("allocations per pair", "number", &figures);
}

/// The counts of three nodes are out of step before each acquire, so that the client
/// must publish the token, whichever majority answers first.
pub async fn published(rounds: usize, table: &mut Table) {
    let servers = support::redis::servers(5);
    let contestant = Contestant::fencing(&fleet::urls(&servers));
    fleet::settle(std::slice::from_ref(&contestant)).await;
    let mut connections = Vec::new();
    for server in servers.iter().take(3) {
        connections.push(fleet::connection(server).await);
    }
    let (mut in_step, mut out_of_step) = (Vec::new(), Vec::new());
    for _ in 0..rounds * PUBLISHED {
        in_step.push(pair(&contestant).await);
        unsettle(&mut connections).await;
        out_of_step.push(pair(&contestant).await);
    }
    for (name, mut times) in [("in step", in_step), ("published", out_of_step)] {
        times.sort_unstable();
        table.own(&format!("acquire + release p50, {name}"), "us", micros(&times, 0.5));
        table.own(&format!("acquire + release p99, {name}"), "us", micros(&times, 0.99));
    }
}

async fn unsettle(connections: &mut [MultiplexedConnection]) {
    for (number, connection) in connections.iter_mut().enumerate() {
        let mut count = redis::cmd("HINCRBY");
        count.arg("{fencing}:memory").arg("c:invoice/42").arg(number + 1);
        let _: i64 = count.query_async(connection).await.unwrap();
    }
}

async fn pair(contestant: &Contestant) -> Duration {
    let start = Instant::now();
    contestant.pair("invoice/42").await;
    start.elapsed()
}
