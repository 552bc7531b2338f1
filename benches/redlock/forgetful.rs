use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencing::{Redlock, Resource};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::fleet;
use crate::table::{Table, micros};

const TASKS: usize = 16;
const SPAN: Duration = Duration::from_secs(3);

/// Counts are collected on every node while tasks acquire and release.
pub async fn collection(table: &mut Table) {
    const FILL: &str = "for i = 1, 100000 do redis.call('HSET', KEYS[1], 'c:old/' .. i, 1) end";
    let mut fill = redis::cmd("EVAL");
    fill.arg(FILL).arg(1).arg("{fencing}:memory");
    under_load(table, "collected", 5, &fill).await;
}

/// One node forgets and is brought back while tasks acquire and release.
pub async fn readmission(table: &mut Table) {
    under_load(table, "brought back", 1, &redis::cmd("FLUSHALL")).await;
}

async fn under_load(table: &mut Table, after: &str, nodes: usize, event: &redis::Cmd) {
    let (servers, redlock) = fleet::of_fencing().await;
    span(table, &redlock, "before").await;
    for server in servers.iter().take(nodes) {
        fleet::run(server, event).await;
    }
    span(table, &redlock, after).await;
}

async fn span(table: &mut Table, redlock: &Redlock, when: &str) {
    let (failed, over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (redlock, failed, over) = (redlock.clone(), Arc::clone(&failed), Arc::clone(&over));
        tasks.spawn(async move {
            let resource = Resource::new(format!("task/{task}")).unwrap();
            let mut times = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let start = Instant::now();
                match redlock.try_acquire(&resource).await {
                    Ok(lease) => {
                        let _ = lease.release().await;
                        times.push(start.elapsed());
                    }
                    Err(_) => _ = failed.fetch_add(1, Ordering::Relaxed),
                }
            }
            times
        });
    }
    sleep(SPAN).await;
    over.store(true, Ordering::Relaxed);
    let mut times = tasks.join_all().await.concat();
    times.sort_unstable();
    table.own(&format!("pairs, {when}"), "1/s", times.len() as f64 / SPAN.as_secs_f64());
    table.own(&format!("acquire + release p99, {when}"), "us", micros(&times, 0.99));
    table.own(&format!("longest, {when}"), "us", micros(&times, 1.0));
    table.own(&format!("failed attempts, {when}"), "number", failed.load(Ordering::Relaxed) as f64);
}
