use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;

use crate::contestant::Contestant;
use crate::fleet;
use crate::table::{Table, micros};

const PAIRS: usize = 20;

/// The counts of three nodes are out of step before each acquire, so that the client
/// must publish the token, whichever majority answers first.
pub async fn measure(rounds: usize, table: &mut Table) {
    let servers = support::redis::servers(5);
    let contestant = Contestant::fencing(&fleet::urls(&servers));
    fleet::settle(std::slice::from_ref(&contestant)).await;
    let mut connections = Vec::new();
    for server in servers.iter().take(3) {
        connections.push(fleet::connection(server).await);
    }
    let (mut in_step, mut out_of_step) = (Vec::new(), Vec::new());
    for _ in 0..rounds * PAIRS {
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
