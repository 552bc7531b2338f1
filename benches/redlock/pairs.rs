use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::allocations::{begin, end};
use crate::contestant::Contestant;
use crate::fleet::{self, Spent};
use crate::rounds::{median, turns};
use crate::table::{Table, p50};

const PAIRS: usize = 100;
/// Of each of many tasks.
const SIDE_BY_SIDE: usize = 20;
/// Of which the allocations are counted.
const COUNTED: usize = 500;

/// One task, one resource, one pair after another, in interleaved rounds.
pub async fn measure(nodes: usize, rounds: usize, table: &mut Table) {
    let (_servers, contestants) = fleet::of_all(nodes).await;
    let mut times = vec![Vec::new(); contestants.len()];
    for which in turns(rounds, contestants.len()) {
        for _ in 0..PAIRS {
            let start = Instant::now();
            contestants[which].pair("invoice/42").await;
            times[which].push(start.elapsed());
        }
    }
    let figures: Vec<_> = contestants.iter().zip(&times).map(|(each, times)| (each.name(), p50(times))).collect();
    table.figure("acquire + release p50", "us", &figures);
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

/// Many tasks, each with a resource of its own, on five nodes.
pub async fn of_tasks(tasks: usize, rounds: usize, table: &mut Table) {
    let (servers, contestants) = fleet::of_all(5).await;
    let mut rates = vec![Vec::new(); contestants.len()];
    let mut costs = vec![[Vec::new(), Vec::new(), Vec::new()]; contestants.len()];
    for which in turns(rounds, contestants.len()) {
        let before = Spent::now(&servers);
        let elapsed = side_by_side(&contestants[which], tasks, SIDE_BY_SIDE).await;
        let cpu = Spent::now(&servers).since(before);
        let pairs = (tasks * SIDE_BY_SIDE) as f64;
        rates[which].push(pairs / elapsed.as_secs_f64());
        let [client, servers] = [cpu.client, cpu.servers].map(|t| t.as_secs_f64() * 1e6 / pairs);
        costs[which][0].push(client);
        costs[which][1].push(servers);
        costs[which][2].push(client + servers);
    }
    let of = |values: Vec<Vec<f64>>| -> Vec<(&'static str, f64)> {
        contestants.iter().map(Contestant::name).zip(values.into_iter().map(median)).collect()
    };
    table.figure("pairs", "1/s", &of(rates));
    for (part, name) in ["client", "five servers", "sum"].iter().enumerate() {
        let part = of(costs.iter().map(|cost| cost[part].clone()).collect());
        table.figure(&format!("processor per pair, {name}"), "us", &part);
    }
}

/// Runs pairs in this many tasks, each on a resource of its own. Returns how long that took.
pub async fn side_by_side(contestant: &Contestant, tasks: usize, pairs: usize) -> Duration {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let contestant = contestant.clone();
        running.spawn(async move {
            let name = format!("task/{task}");
            for _ in 0..pairs {
                contestant.pair(&name).await;
            }
        });
    }
    running.join_all().await;
    start.elapsed()
}
