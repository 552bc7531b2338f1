use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::contestant::Contestant;
use crate::fleet::{self, Spent};
use crate::rounds::{median, turns};
use crate::table::Table;

const PAIRS: usize = 20;

/// Many tasks, each with a resource of its own, on five nodes.
pub async fn measure(tasks: usize, rounds: usize, table: &mut Table) {
    let (servers, contestants) = fleet::of_all(5).await;
    let mut rates = vec![Vec::new(); contestants.len()];
    let mut costs = vec![[Vec::new(), Vec::new(), Vec::new()]; contestants.len()];
    for which in turns(rounds, contestants.len()) {
        let before = Spent::now(&servers);
        let elapsed = side_by_side(&contestants[which], tasks).await;
        let cpu = Spent::now(&servers).since(before);
        let pairs = (tasks * PAIRS) as f64;
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

async fn side_by_side(contestant: &Contestant, tasks: usize) -> Duration {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let contestant = contestant.clone();
        running.spawn(async move {
            let name = format!("task/{task}");
            for _ in 0..PAIRS {
                contestant.pair(&name).await;
            }
        });
    }
    running.join_all().await;
    start.elapsed()
}
