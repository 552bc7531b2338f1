//! What a lease costs, against three contestants in the same run: `rslock`, a bare quorum without tokens, watchdog or
//! limits, and the least that a client of the same scripts can do. docs/assurance/performance.md has the figures and the method.
//!
//! `cargo bench -p redlock_bench`, then the names of rows if you do not want all of them:
//! `-- n5 tasks64`. `--rounds 40` sets the rounds (default 20).
//! `served`, `served10000` and `soak` need `cargo build --release -p fencing-cli` before.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../allocations.rs"]
mod allocations;
mod bare;
mod contestant;
#[path = "../cpu.rs"]
mod cpu;
mod fleet;
mod hand_over;
mod held;
mod pairs;
mod peers;
#[path = "../rounds.rs"]
mod rounds;
mod scripts;
mod serve;
mod served;
mod table;

use table::Table;

const ROWS: &str = "n1 n3 n5 tasks64 allocations handover renewals10000 peers postgres served served10000";
/// Ten minutes, only if it is asked for.
const SOAK: &str = "soak";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut rounds, mut rows) = (20, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
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
    let mut table = Table::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
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
        "tasks64" => pairs::of_tasks(64, rounds, table).await,
        "allocations" => pairs::allocations(table).await,
        "handover" => hand_over::in_one_process(table).await,
        "renewals10000" => held::measure(10_000, table).await,
        "peers" => peers::measure(rounds).await,
        "postgres" => peers::on_postgres(rounds).await,
        "served" => served::measure(rounds, table).await,
        "served10000" => served::held(10_000, table).await,
        _ => served::soak(table).await,
    }
}
