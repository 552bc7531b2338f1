use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::task::JoinSet;

use crate::bare::Bare;
use crate::contestant::Contestant;
use crate::cpu::Cpu;
use crate::fleet::{self, Servers};
use crate::scripts::Scripts;
use crate::table::Table;
use crate::turn::Turn;

/// The first argument of a process that only waits and holds.
pub const CHILD: &str = "--hand-over";

const NAME: &str = "invoice/42";
const HOLD: Duration = Duration::from_millis(1);
const SPAN: Duration = Duration::from_secs(5);
const PROCESSES: usize = 8;
const WAITERS: usize = 8;

/// What waiters of one process saw.
#[derive(Clone, Copy, Default)]
struct Seen {
    holds: u64,
    longest: Duration,
}

/// Two waiters in one process, for one resource. The bare client and that of the scripts can't wait: a mutex of the
/// process hands them the turn, and the servers are asked as they are otherwise.
pub async fn in_one_process(table: &mut Table) {
    let servers = Servers::start(5).await;
    let urls = servers.urls();
    let mut figures = Vec::new();
    for contestant in [Contestant::rslock(&urls), Contestant::fencing(&urls)] {
        fleet::settle(std::slice::from_ref(&contestant)).await;
        figures.push((contestant.name(), waiters(&contestant, NAME, 2, None).await));
    }
    for contestant in [
        Contestant::Bare(Bare::connect(&urls).await),
        Contestant::Scripts(Scripts::connect(&urls).await),
    ] {
        let turn = Some(Arc::new(Turn::here()));
        figures.push((contestant.name(), waiters(&contestant, NAME, 2, turn).await));
    }
    print(table, "", &figures, 1);
}

/// More and more waiters in one process: what is done in a second, and what each hold costs.
pub async fn with_waiters(table: &mut Table) {
    let servers = Servers::start(5).await;
    let urls = servers.urls();
    let contestant = Contestant::fencing(&urls);
    fleet::settle(std::slice::from_ref(&contestant)).await;
    for number in [2, 8, 64, 512] {
        let start = Cpu::now(&servers);
        let seen = waiters(&contestant, NAME, number, None).await;
        let cpu = Cpu::now(&servers).since(start);
        let each = |time: Duration| time.as_secs_f64() * 1e6 / seen.holds as f64;
        table.own(
            &format!("{number} waiters, holds"),
            "1/s",
            seen.holds as f64 / SPAN.as_secs_f64(),
        );
        let ahead = (number - 1) as f64 * SPAN.as_secs_f64() / seen.holds as f64;
        let longest = seen.longest.as_secs_f64() / ahead;
        table.own(&format!("{number} waiters, longest, to a fair wait"), "times", longest);
        table.own(&format!("{number} waiters, client per hold"), "us", each(cpu.client));
        table.own(&format!("{number} waiters, five servers"), "us", each(cpu.servers));
    }
}

/// Eight processes with eight waiters each, for one resource. The client of the scripts can't wait: it gets the turn in
/// ways that cost next to nothing, which shows how much room the scripts leave.
pub async fn in_eight_processes(table: &mut Table) {
    let servers = Servers::start(5).await;
    let urls = servers.urls();
    let mut figures = Vec::new();
    for contestant in [Contestant::rslock(&urls), Contestant::fencing(&urls)] {
        fleet::settle(std::slice::from_ref(&contestant)).await;
        let seen = processes(&servers, contestant.name(), 0).await;
        figures.push((contestant.name(), seen));
    }
    for (way, holds) in [("ring", 1), ("ring", 8), ("list", 1), ("list", 8)] {
        let mut figures = figures.clone();
        figures.push(("scripts", processes(&servers, way, holds).await));
        let label = format!("{way}, {holds} in turn: ");
        print(table, &label, &figures, PROCESSES * WAITERS - 1);
    }
}

/// Runs the eight processes of one contestant. The turn of the scripts' client goes to the next process after this many
/// holds.
async fn processes(servers: &Servers, name: &str, holds: u32) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    if name == "list" {
        Turn::begin_list(&mut servers.0[0].connection().await.unwrap()).await;
    }
    let mut children = JoinSet::new();
    for process in 0..PROCESSES {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([CHILD, name, &holds.to_string(), &process.to_string()]);
        command.arg(folder.path()).args(servers.urls()).stdout(Stdio::piped());
        children.spawn(async move { command.output().await.unwrap().stdout });
    }
    if name == "ring" {
        Turn::begin_ring(folder.path(), PROCESSES).await;
    }
    let mut total = Seen::default();
    for output in children.join_all().await {
        let text = String::from_utf8(output).unwrap();
        let numbers: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
        total.holds += numbers[0];
        total.longest = total.longest.max(Duration::from_micros(numbers[1]));
    }
    total
}

/// Is one of the eight processes.
pub async fn child(arguments: Vec<String>) {
    let [name, holds, process, folder, urls @ ..] = &arguments[..] else { panic!("{arguments:?}") };
    let (holds, process) = (holds.parse().unwrap(), process.parse().unwrap());
    let (contestant, turn) = match name.as_str() {
        "rslock" => (Contestant::rslock(urls), None),
        "fencing" => (Contestant::fencing(urls), None),
        way => {
            let contestant = Contestant::Scripts(Scripts::connect(urls).await);
            let turn = match way {
                "ring" => Turn::ring(Path::new(folder), process, PROCESSES, holds).await,
                _ => Turn::list(&urls[0], holds).await,
            };
            (contestant, Some(Arc::new(turn)))
        }
    };
    // The run before may have left its lock behind.
    let resource = format!("invoice/{name}/{holds}");
    let seen = waiters(&contestant, &resource, WAITERS, turn).await;
    println!("{} {}", seen.holds, seen.longest.as_micros());
}

async fn waiters(
    contestant: &Contestant,
    name: &str,
    number: usize,
    turn: Option<Arc<Turn>>,
) -> Seen {
    let holds = Arc::<AtomicU64>::default();
    let end = Instant::now() + SPAN;
    let mut tasks = JoinSet::new();
    for _ in 0..number {
        let (contestant, holds, turn) = (contestant.clone(), Arc::clone(&holds), turn.clone());
        let name = name.to_owned();
        tasks.spawn(async move {
            let mut longest = Duration::ZERO;
            while Instant::now() < end {
                let start = Instant::now();
                let left = end.saturating_duration_since(start);
                // Who still waits at the end has waited for so long.
                let held = async {
                    let hold = contestant.hold(&name, HOLD);
                    match &turn {
                        Some(turn) => turn.take(hold).await,
                        None => hold.await,
                    }
                };
                if let Ok(true) = tokio::time::timeout(left, held).await {
                    holds.fetch_add(1, Ordering::Relaxed);
                }
                longest = longest.max(start.elapsed());
            }
            longest
        });
    }
    let longest = tasks.join_all().await.into_iter().max().unwrap_or_default();
    Seen { holds: holds.load(Ordering::Relaxed), longest }
}

fn print(table: &mut Table, label: &str, figures: &[(&'static str, Seen)], ahead: usize) {
    let rate = |seen: &Seen| seen.holds as f64 / SPAN.as_secs_f64();
    let each = |value: &dyn Fn(&Seen) -> f64| -> Vec<(&'static str, f64)> {
        figures.iter().map(|(name, seen)| (*name, value(seen))).collect()
    };
    table.figure(&format!("{label}holds of 1 ms"), "1/s", &each(&rate));
    table.figure(
        &format!("{label}longest wait"),
        "ms",
        &each(&|seen| seen.longest.as_secs_f64() * 1e3),
    );
    let holds = |seen: &Seen| seen.longest.as_secs_f64() * rate(seen) / ahead as f64;
    table.figure(&format!("{label}longest for each ahead"), "holds", &each(&holds));
}
