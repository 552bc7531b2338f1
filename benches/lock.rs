//! Acquire plus release on five private redis-servers: with all five, with one stopped
//! and one killed, and a bare `SET NX PX` with compare-and-delete on the same five.
//!
//! Rounds of each are interleaved, so that whatever else the machine does falls on all.
//! `cargo bench --bench lock`; `FENCING_ROUNDS` sets the rounds (default 20).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::time::{Duration, Instant};

use fencing::{Redlock, Resource};
use redis::aio::MultiplexedConnection;
use support::redis::{RedisServer, five};
use tokio::task::JoinSet;

const LEASES: usize = 200;
const BUDGET: Duration = Duration::from_millis(50);

fn service(servers: &[RedisServer]) -> Redlock {
    let urls = servers.iter().map(RedisServer::url);
    Redlock::builder().first_start(true).redis(urls).node_budget(BUDGET).build().unwrap()
}

async fn lease(redlock: &Redlock, resource: &Resource) -> Duration {
    let start = Instant::now();
    redlock.acquire(resource).await.unwrap().release().await.unwrap();
    start.elapsed()
}

/// Both halves go to all five at once and wait for a majority, as the lock does.
async fn bare(connections: &[MultiplexedConnection], number: usize) -> Duration {
    const DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                          return redis.call('DEL', KEYS[1]) end return 0";
    let owner = format!("{number:032x}");
    let start = Instant::now();
    let mut set = redis::cmd("SET");
    set.arg("bare").arg(&owner).arg("NX").arg("PX").arg(10_000);
    majority(connections, &set).await;
    let mut delete = redis::cmd("EVAL");
    delete.arg(DELETE).arg(1).arg("bare").arg(&owner);
    majority(connections, &delete).await;
    start.elapsed()
}

async fn majority(connections: &[MultiplexedConnection], command: &redis::Cmd) {
    let mut calls = JoinSet::new();
    for connection in connections {
        let (mut connection, command) = (connection.clone(), command.clone());
        calls.spawn(async move { command.query_async::<redis::Value>(&mut connection).await });
    }
    for _ in 0..connections.len() / 2 + 1 {
        calls.join_next().await.unwrap().unwrap().unwrap();
    }
    calls.detach_all();
}

fn of(sorted: &[Duration], share: f64) -> f64 {
    let place = ((sorted.len() - 1) as f64 * share).round() as usize;
    sorted[place].as_secs_f64() * 1e6
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let rounds: usize =
        std::env::var("FENCING_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    // Two fleets, so that nobody measures a re-admission.
    let (whole, mut hurt) = (five(), five());
    let (well, lame) = (service(&whole), service(&hurt));
    let resource = Resource::new("invoice/42").unwrap();
    lease(&well, &resource).await;
    lease(&lame, &resource).await;
    let mut connections = Vec::new();
    for server in &whole {
        let client = redis::Client::open(server.url()).unwrap();
        connections.push(client.get_multiplexed_async_connection().await.unwrap());
    }
    // All five of each are admitted by now or soon.
    tokio::time::sleep(Duration::from_secs(2)).await;
    hurt[0].signal("STOP");
    hurt[1].kill();
    let first = lease(&lame, &resource).await;

    let names = ["bare SET NX PX + delete", "all five", "one stopped, one killed"];
    let mut times = [const { Vec::<Duration>::new() }; 3];
    for round in 0..rounds {
        // Each goes first in its turn.
        for turn in 0..3 {
            let which = (round + turn) % 3;
            for number in 0..LEASES {
                times[which].push(match which {
                    0 => bare(&connections, number + 1).await,
                    1 => lease(&well, &resource).await,
                    _ => lease(&lame, &resource).await,
                });
            }
        }
    }
    println!("acquire + release, five redis-servers, {rounds} interleaved rounds of {LEASES}");
    println!("{:<26}{:>12}{:>12}{:>12}{:>10}", "", "median us", "p99 us", "max us", "ratio");
    times.iter_mut().for_each(|times| times.sort_unstable());
    let base = of(&times[1], 0.5);
    for (name, times) in names.iter().zip(&times) {
        let (median, late, most) = (of(times, 0.5), of(times, 0.99), of(times, 1.0));
        println!("{name:<26}{median:>12.0}{late:>12.0}{most:>12.0}{:>10.2}", median / base);
    }
    let bare = of(&times[0], 0.5);
    println!("all five to bare: {:.2}", base / bare);
    println!(
        "the first after the faults: {:.0} us (node budget {} us)",
        first.as_secs_f64() * 1e6,
        BUDGET.as_micros()
    );
}
