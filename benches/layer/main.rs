//! What the layer adds to a request: time, an axum server, and the memory of a mark. All ways are
//! interleaved in the same run; figures are medians over the rounds, and those of time (of the processor) are
//! differences to the bare handler of the same round.
//!
//! `cargo bench -p layer_bench --bench layer`; `FENCING_ROUNDS` sets the rounds (default 15).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../allocations.rs"]
mod allocations;
mod loopback;
#[path = "../rounds.rs"]
mod rounds;
mod way;

use std::future::Future;

use fencing::fence::{Marks, MemoryMarks};
use fencing::{Resource, Token};
use rounds::{median, turns};
use way::{Requests, Storage, WAYS, Way};

const MANY: usize = 1_000_000;
/// So many requests in one round of one way.
const COUNT: usize = 50_000;

fn rounds() -> usize {
    std::env::var("FENCING_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(15)
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// What each way adds to the bare handler of the same round, in nanoseconds.
fn added(storage: &Storage, requests: &Requests) {
    let mut found = vec![Vec::new(); WAYS.len()];
    block_on(async {
        for which in turns(rounds(), WAYS.len()) {
            let from = found[which].len() * COUNT;
            let time = storage.run(WAYS[which].0, requests, from, COUNT).await;
            found[which].push(time.as_nanos() as f64 / COUNT as f64);
        }
    });
    for ((way, words), times) in WAYS.iter().zip(&found) {
        let figure = match *way {
            Way::Bare => format!("{:.0} ns", median(times.iter().copied())),
            _ => format!("+{:.0} ns", median(times.iter().zip(&found[0]).map(|(time, bare)| time - bare))),
        };
        println!("  {words:<28}{figure:>9}");
    }
}

/// Bytes of a mark in memory, its name aside.
fn memory() {
    let names: Vec<_> = (0..MANY).map(|number| format!("invoices/2026/{number:07}")).collect();
    allocations::begin();
    let marks = MemoryMarks::new(MANY);
    block_on(async {
        for name in &names {
            let resource = Resource::new(name).unwrap();
            marks.raise(&resource, Token::new(34).unwrap()).await.unwrap();
        }
    });
    let (_, bytes) = allocations::end();
    let named: usize = names.iter().map(String::len).sum();
    drop(marks);
    println!("  {:<28}{:>9.0}", "bytes, besides the name", (bytes as f64 - named as f64) / MANY as f64);
}

fn main() {
    let (one, many) = (Requests::to(1), Requests::to(MANY));
    let few = block_on(Storage::of(&one));
    let storage = block_on(Storage::of(&many));
    println!("time of a request, one resource");
    added(&few, &one);
    println!("time of a request, {MANY} resources");
    added(&storage, &many);
    println!("a mark of {MANY} in memory");
    memory();
    println!("an axum server on loopback, requests per second");
    loopback::measure(rounds());
}
