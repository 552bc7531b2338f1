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
use crate::table::{Table, micros};

/// How many leases are looked at, and how often, once the processor time is measured: each look costs some, too.
const LOOKED_AT: usize = 250;
const LOOKS: Duration = Duration::from_millis(50);
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
    table.own("bytes per lease", "B", bytes as f64 / number as f64);
    let start = Spent::now(&servers);
    tokio::time::sleep(WATCHED).await;
    let fencing = Spent::now(&servers).since(start);
    let mut late = watch(&leases).await;
    let lost = leases.iter().filter(|lease| lease.valid_for().is_zero()).count();
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
    late.sort_unstable();
    table.own("lateness of renewals p50", "us", micros(&late, 0.5));
    table.own("lateness of renewals p99", "us", micros(&late, 0.99));
    table.own("leases lost", "number", lost as f64);
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

/// Returns by how much each renewal came after a third of the TTL, to within the pause of the looks.
async fn watch(leases: &[Lease]) -> Vec<Duration> {
    let due = TTL - (TTL / 100 + Duration::from_millis(2)) - TTL / 3;
    let step = (leases.len() / LOOKED_AT).max(1);
    let looked_at: Vec<_> = leases.iter().step_by(step).collect();
    let mut least = vec![Duration::MAX; looked_at.len()];
    let mut late = Vec::new();
    let end = Instant::now() + WATCHED;
    while Instant::now() < end {
        for (lease, least) in looked_at.iter().zip(&mut least) {
            let left = lease.valid_for();
            if least.checked_add(LOOKS * 4).is_some_and(|rise| left > rise) {
                late.push(due.saturating_sub(*least));
                *least = Duration::MAX;
            }
            *least = left.min(*least);
        }
        tokio::time::sleep(LOOKS).await;
    }
    late
}
