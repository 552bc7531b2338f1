use std::time::Instant;

use crate::allocations::{begin, end};
use crate::fleet;
use crate::rounds::turns;
use crate::table::{Table, p50};

const PAIRS: usize = 100;
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
