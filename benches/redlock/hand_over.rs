use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::bare::Bare;
use crate::contestant::Contestant;
use crate::fleet;
use crate::scripts::Scripts;
use crate::table::Table;

const NAME: &str = "invoice/42";
const HOLD: Duration = Duration::from_millis(1);
const SPAN: Duration = Duration::from_secs(5);
const WAITERS: usize = 2;

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
        figures.push((contestant.name(), waiters(&contestant, None).await));
    }
    for contestant in [Contestant::Bare(Bare::connect(&urls).await), Contestant::Scripts(Scripts::connect(&urls).await)]
    {
        let turn = Some(Arc::new(Mutex::new(())));
        figures.push((contestant.name(), waiters(&contestant, turn).await));
    }
    print(table, &figures);
}

async fn waiters(contestant: &Contestant, turn: Option<Arc<Mutex<()>>>) -> Seen {
    let holds = Arc::<AtomicU64>::default();
    let end = Instant::now() + SPAN;
    let mut tasks = JoinSet::new();
    for _ in 0..WAITERS {
        let (contestant, holds, turn) = (contestant.clone(), Arc::clone(&holds), turn.clone());
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
                    contestant.hold(NAME, HOLD).await
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

fn print(table: &mut Table, figures: &[(&'static str, Seen)]) {
    let rate = |seen: &Seen| seen.holds as f64 / SPAN.as_secs_f64();
    let each = |value: &dyn Fn(&Seen) -> f64| -> Vec<(&'static str, f64)> {
        figures.iter().map(|(name, seen)| (*name, value(seen))).collect()
    };
    table.figure("holds of 1 ms", "1/s", &each(&rate));
    table.figure("longest wait", "ms", &each(&|seen| seen.longest.as_secs_f64() * 1e3));
}
