use std::time::{Duration, Instant};

use fencing::{Lease, Resource};
use support::redis::RedisServer;
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::allocations;
use crate::bare::Bare;
use crate::contestant::TTL;
use crate::fleet::{self, Spent};
use crate::scripts::Scripts;
use crate::table::Table;

const WATCHED: Duration = Duration::from_secs(20);
/// The pause of the least client: as long as this crate lets renewals wait for one another.
const BATCHES: Duration = Duration::from_millis(40);

/// This many leases that are held, and nothing else.
pub async fn measure(number: usize, table: &mut Table) {
    let (servers, redlock) = fleet::of_fencing().await;
    let resources: Vec<_> = (0..number).map(|number| Resource::new(format!("held/{number}")).unwrap()).collect();
    let mut leases: Vec<Lease> = Vec::with_capacity(number);
    allocations::begin();
    // One after another over a few seconds, as a service gets them, but for the batches.
    for batch in resources.chunks(100) {
        let attempts = batch.iter().cloned().map(|resource| {
            let redlock = redlock.clone();
            async move { redlock.acquire(&resource).await.unwrap() }
        });
        let attempts: JoinSet<_> = attempts.collect();
        leases.extend(attempts.join_all().await);
    }
    redlock.settle().await;
    let (_, bytes) = allocations::end();
    table.figure("bytes per lease", "B", &[("fencing", bytes as f64 / number as f64)]);
    let start = Spent::now(&servers);
    tokio::time::sleep(WATCHED).await;
    let fencing = Spent::now(&servers).since(start);
    drop(leases);
    redlock.settle().await;
    let scripts = by_scripts(number, &servers).await;
    let bare = by_commands(number, &servers).await;
    let percent = |time: Duration| time.as_secs_f64() * 100.0 / WATCHED.as_secs_f64();
    let both = |of: &dyn Fn(&Spent) -> Duration| {
        [("bare", &bare), ("scripts", &scripts), ("fencing", &fencing)]
            .map(|(contestant, spent)| (contestant, percent(of(spent))))
    };
    table.figure("client, of a core", "%", &both(&|cpu| cpu.client));
    table.figure("five servers, of a core", "%", &both(&|cpu| cpu.servers));
}

/// The least that it takes to keep this many locks with this crate's scripts: the same requests to the same nodes at
/// the same rate, by a client that watches no deadline and has no lease to tell.
async fn by_scripts(number: usize, servers: &[RedisServer]) -> Spent {
    let scripts = Scripts::connect(&fleet::urls(servers)).await;
    let mut held = Vec::with_capacity(number);
    for lock in 0..number {
        held.push(scripts.acquire(&format!("held/{lock}")).await.unwrap());
    }
    spent(&held, servers, async |batch| assert_eq!(scripts.renew(batch).await, batch.len())).await
}

/// The same with one command for each lock, which checks nothing.
async fn by_commands(number: usize, servers: &[RedisServer]) -> Spent {
    let bare = Bare::connect(&fleet::urls(servers)).await;
    let names: Vec<String> = (0..number).map(|lock| format!("bare:held/{lock}")).collect();
    bare.lock(&names).await;
    spent(&names, servers, async |batch| bare.extend(batch).await).await
}

/// Renews all that is held each third of the TTL, a batch after each pause, and returns what that took.
async fn spent<T>(held: &[T], servers: &[RedisServer], renew: impl AsyncFn(&[T])) -> Spent {
    let each = held.len() * usize::try_from(BATCHES.as_millis()).unwrap() * 3;
    let batch = (each / usize::try_from(TTL.as_millis()).unwrap()).max(1);
    let mut ticks = interval(BATCHES);
    let (start, end) = (Spent::now(servers), Instant::now() + WATCHED);
    for batch in held.chunks(batch).cycle() {
        ticks.tick().await;
        if Instant::now() >= end {
            break;
        }
        renew(batch).await;
    }
    Spent::now(servers).since(start)
}
