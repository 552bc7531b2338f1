//! What a lease costs, against three contestants in the same run: `rslock`, a bare quorum without tokens, watchdog or
//! limits, and the least that a client of the same scripts can do. docs/assurance/performance.md has the figures and the method.
//!
//! `cargo bench -p redlock_bench`, then the names of rows if you do not want all of them:
//! `-- n5 tasks64`. `--json` prints one object a line. `--rounds 40` sets the rounds (default 20).
//! `served`, `served10000` and `soak` need `cargo build --release -p fencing-cli` before.
//!
//! Rounds of the contestants are interleaved, so that other load on the machine slows all of them alike.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../allocations.rs"]
mod allocations;
mod bare;
mod contestant;
#[path = "../cpu.rs"]
mod cpu;
mod fleet;
mod forgetful;
mod hand_over;
mod held;
mod lame;
mod pairs;
mod peers;
mod scripts;
mod serve;
mod served;
mod soak;
mod table;
mod tasks;

use table::Table;

/// The rows by their names.
const ROWS: &str = "n1 n3 n5 tasks64 allocations delay1 delay5 dead hung handover waiters handover8 burst3000 \
    burst10000 publish renewals1000 renewals10000 collection readmission peers served \
    served10000";
/// Ten minutes, only if it is asked for.
const SOAK: &str = "soak";

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == hand_over::CHILD) {
        return run(hand_over::child(arguments.skip(1).collect()));
    }
    let (mut json, mut rounds, mut rows) = (false, 20, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json = true,
            "--bench" => {}
            "--rounds" => {
                let number = arguments.next().and_then(|text| text.parse().ok());
                rounds = number.expect("--rounds takes a number");
            }
            name if ROWS.split(' ').chain([SOAK]).any(|row| row == name) => rows.push(name.to_owned()),
            other => panic!("no such row: {other}; there are {ROWS} {SOAK}"),
        }
    }
    if rows.is_empty() {
        rows = ROWS.split(' ').map(str::to_owned).collect();
    }
    let mut table = Table::new(json);
    run(async {
        for row in &rows {
            table.begin(row);
            measure(row, rounds, &mut table).await;
        }
    });
}

async fn measure(row: &str, rounds: usize, table: &mut Table) {
    match row {
        "n1" => pairs::measure(1, rounds, table).await,
        "n3" => pairs::measure(3, rounds, table).await,
        "n5" => pairs::measure(5, rounds, table).await,
        "tasks64" => tasks::measure(64, rounds, table).await,
        "allocations" => pairs::allocations(table).await,
        "delay1" => lame::delayed(1, table).await,
        "delay5" => lame::delayed(5, table).await,
        "dead" => lame::dead(table).await,
        "hung" => lame::hung(table).await,
        "handover" => hand_over::in_one_process(table).await,
        "waiters" => hand_over::with_waiters(table).await,
        "handover8" => hand_over::in_eight_processes(table).await,
        "burst3000" => tasks::burst(3_000, table).await,
        "burst10000" => tasks::burst(10_000, table).await,
        "publish" => pairs::published(rounds, table).await,
        "renewals1000" => held::measure(1_000, table).await,
        "renewals10000" => held::measure(10_000, table).await,
        "peers" => peers::measure(rounds).await,
        "served" => served::measure(rounds, table).await,
        "served10000" => served::held(10_000, table).await,
        SOAK => soak::measure(table).await,
        "collection" => forgetful::collection(table).await,
        _ => forgetful::readmission(table).await,
    }
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(work);
}
