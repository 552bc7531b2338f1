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
    table.figure("holds of 1 ms", "1/s", &figures);
}

/// Returns the holds of all waiters in a second.
async fn waiters(contestant: &Contestant, turn: Option<Arc<Mutex<()>>>) -> f64 {
    let holds = Arc::<AtomicU64>::default();
    let end = Instant::now() + SPAN;
    let mut tasks = JoinSet::new();
    for _ in 0..WAITERS {
        let (contestant, holds, turn) = (contestant.clone(), Arc::clone(&holds), turn.clone());
        tasks.spawn(async move {
            while Instant::now() < end {
                let held = async {
                    let _turn = match &turn {
                        Some(turn) => Some(turn.lock().await),
                        None => None,
                    };
                    contestant.hold(NAME, HOLD).await
                };
                if let Ok(true) = tokio::time::timeout_at(end.into(), held).await {
                    holds.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    tasks.join_all().await;
    holds.load(Ordering::Relaxed) as f64 / SPAN.as_secs_f64()
}
