use crate::allocations::{begin, end};
use crate::fleet;
use crate::table::Table;

const PAIRS: usize = 500;

/// Allocations of one pair on five nodes, what it leaves to background tasks included.
pub async fn measure(table: &mut Table) {
    let (_servers, contestants) = fleet::of_all(5).await;
    let mut figures = Vec::new();
    for contestant in &contestants {
        begin();
        for _ in 0..PAIRS {
            contestant.pair("invoice/42").await;
        }
        figures.push((contestant.name(), end().0 as f64 / PAIRS as f64));
    }
    table.figure("allocations per pair", "number", &figures);
}
