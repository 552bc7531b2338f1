use std::time::{Duration, Instant};

use crate::allocations::{begin, end};
use crate::contestant::Contestant;
use crate::fleet;
use crate::table::Table;

const PAIRS: usize = 100;
/// Of which the allocations are counted.
const COUNTED: usize = 500;

type Times = Vec<(&'static str, Vec<Duration>)>;

/// One task, one resource, one pair after another.
pub async fn measure(nodes: usize, rounds: usize, table: &mut Table) {
    let (_servers, contestants) = fleet::of_all(nodes).await;
    table.times(&mut rounds_of(&contestants, rounds).await);
}

/// Runs interleaved rounds.
async fn rounds_of(contestants: &[Contestant], rounds: usize) -> Times {
    let mut times: Times = contestants.iter().map(|each| (each.name(), Vec::new())).collect();
    for turn in 0..rounds * contestants.len() {
        // Each goes first in its turn.
        let which = (turn / contestants.len() + turn) % contestants.len();
        for _ in 0..PAIRS {
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

async fn pair(contestant: &Contestant) -> Duration {
    let start = Instant::now();
    contestant.pair("invoice/42").await;
    start.elapsed()
}
