use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::bare::Bare;
use crate::contestant::Contestant;
use crate::fleet::{self, Spent};
use crate::scripts::Scripts;
use crate::table::Table;

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
    let servers = support::redis::servers(5);
    let urls = fleet::urls(&servers);
    let mut figures = Vec::new();
    for contestant in [Contestant::rslock(&urls), Contestant::fencing(&urls)] {
        fleet::settle(std::slice::from_ref(&contestant)).await;
        figures.push((contestant.name(), waiters(&contestant, NAME, 2, None).await));
    }
    for contestant in [Contestant::Bare(Bare::connect(&urls).await), Contestant::Scripts(Scripts::connect(&urls).await)]
    {
        let turn = Some(Arc::new(Mutex::new(())));
        figures.push((contestant.name(), waiters(&contestant, NAME, 2, turn).await));
    }
    print(table, &figures, 1);
}

/// More and more waiters in one process: what is done in a second, and what each hold costs.
pub async fn with_waiters(table: &mut Table) {
    let servers = support::redis::servers(5);
    let urls = fleet::urls(&servers);
    let contestant = Contestant::fencing(&urls);
    fleet::settle(std::slice::from_ref(&contestant)).await;
    for number in [2, 8, 64, 512] {
        let start = Spent::now(&servers);
        let seen = waiters(&contestant, NAME, number, None).await;
        let cpu = Spent::now(&servers).since(start);
        let each = |time: Duration| time.as_secs_f64() * 1e6 / seen.holds as f64;
        table.own(&format!("{number} waiters, holds"), "1/s", seen.holds as f64 / SPAN.as_secs_f64());
        let ahead = (number - 1) as f64 * SPAN.as_secs_f64() / seen.holds as f64;
        let longest = seen.longest.as_secs_f64() / ahead;
        table.own(&format!("{number} waiters, longest, to a fair wait"), "times", longest);
        table.own(&format!("{number} waiters, client per hold"), "us", each(cpu.client));
        table.own(&format!("{number} waiters, five servers"), "us", each(cpu.servers));
    }
}

/// Eight processes with eight waiters each, for one resource.
pub async fn in_eight_processes(table: &mut Table) {
    let servers = support::redis::servers(5);
    let urls = fleet::urls(&servers);
    let mut figures = Vec::new();
    for contestant in [Contestant::rslock(&urls), Contestant::fencing(&urls)] {
        fleet::settle(std::slice::from_ref(&contestant)).await;
        let mut children = JoinSet::new();
        for _ in 0..PROCESSES {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args([CHILD, contestant.name()]).args(&urls).stdout(Stdio::piped());
            children.spawn(async move { command.output().await.unwrap().stdout });
        }
        let mut total = Seen::default();
        for output in children.join_all().await {
            let text = String::from_utf8(output).unwrap();
            let numbers: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
            total.holds += numbers[0];
            total.longest = total.longest.max(Duration::from_micros(numbers[1]));
        }
        figures.push((contestant.name(), total));
    }
    print(table, &figures, PROCESSES * WAITERS - 1);
}

/// Is one of the eight processes.
pub async fn child(arguments: Vec<String>) {
    let [name, urls @ ..] = &arguments[..] else { panic!("{arguments:?}") };
    let contestant = match name.as_str() {
        "rslock" => Contestant::rslock(urls),
        _ => Contestant::fencing(urls),
    };
    // The other's run may have left its lock behind.
    let seen = waiters(&contestant, &format!("invoice/{name}"), WAITERS, None).await;
    println!("{} {}", seen.holds, seen.longest.as_micros());
}

async fn waiters(contestant: &Contestant, name: &str, number: usize, turn: Option<Arc<Mutex<()>>>) -> Seen {
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
                    let _turn = match &turn {
                        Some(turn) => Some(turn.lock().await),
                        None => None,
                    };
                    contestant.hold(&name, HOLD).await
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

fn print(table: &mut Table, figures: &[(&'static str, Seen)], ahead: usize) {
    let rate = |seen: &Seen| seen.holds as f64 / SPAN.as_secs_f64();
    let each = |value: &dyn Fn(&Seen) -> f64| -> Vec<(&'static str, f64)> {
        figures.iter().map(|(name, seen)| (*name, value(seen))).collect()
    };
    table.figure("holds of 1 ms", "1/s", &each(&rate));
    table.figure("longest wait", "ms", &each(&|seen| seen.longest.as_secs_f64() * 1e3));
    let holds = |seen: &Seen| seen.longest.as_secs_f64() * rate(seen) / ahead as f64;
    table.figure("longest for each ahead", "holds", &each(&holds));
}
