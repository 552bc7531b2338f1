//! Thousands of attempts at once on five real redis-servers. Nothing else runs beside it: it takes all processors.

use std::time::{Duration, Instant};

use fencing::lock::Released;
use fencing::{Lease, Redlock, Resource};
use futures_util::future::join_all;
use support::redis::{RedisServer, five};
use tokio::sync::Mutex;

/// One burst at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Makes `attempts` at once, with the default budget; returns how many succeeded. Each has its turn within half a TTL.
async fn burst(servers: &[RedisServer], attempts: usize) -> usize {
    let urls = servers.iter().map(RedisServer::url);
    let builder = Redlock::builder().first_start(true).redis(urls).ttl(Duration::from_secs(60));
    let redlock = builder.build().unwrap();
    let attempts = (0..attempts).map(|number| {
        let redlock = redlock.clone();
        tokio::spawn(async move {
            let resource = Resource::new(format!("burst/{number}")).unwrap();
            redlock.try_acquire(&resource).await
        })
    });
    let attempts: Vec<_> = attempts.collect();
    let mut leases = Vec::new();
    for attempt in attempts {
        leases.extend(attempt.await.unwrap());
    }
    let succeeded = leases.len();
    let releases = leases.into_iter().map(|lease| tokio::spawn(lease.release()));
    for release in releases.collect::<Vec<_>>() {
        let _ = release.await.unwrap();
    }
    redlock.settle().await;
    succeeded
}

/// Each attempt has its whole budget, the default one, however many there are: on a quiet machine all succeed. Other
/// work may take the processors from the servers for longer than a budget, and one attempt in ten may fail then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_3000_and_of_10000_at_once_all_succeed() {
    let _alone = ALONE.lock().await;
    let servers = five();
    burst(&servers, 1).await;
    for attempts in [3_000, 10_000] {
        let mut most = 0;
        for _ in 0..5 {
            most = most.max(burst(&servers, attempts).await);
            if most == attempts {
                break;
            }
        }
        println!("{most} of {attempts}");
        assert!(most >= attempts - attempts / 10, "{most} of {attempts}");
    }
}

/// No lease of a burst stays locked until its TTL, dropped or released. `FENCING_BURST` says how many leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_release_of_a_burst_is_lost() {
    let _alone = ALONE.lock().await;
    let count: usize = std::env::var("FENCING_BURST").map_or(10_000, |it| it.parse().unwrap());
    let servers = five();
    let urls = servers.iter().map(RedisServer::url);
    let builder = Redlock::builder().first_start(true).redis(urls).ttl(Duration::from_secs(600));
    let redlock = builder.build().unwrap();
    for dropped in [true, false] {
        let leases = held(&redlock, count).await;
        let begin = Instant::now();
        if dropped {
            drop(leases);
        } else {
            let released = join_all(leases.into_iter().map(Lease::release)).await;
            let late = released.iter().filter(|it| it.is_err()).count();
            println!("{late} were told that their release is late");
            assert!(released.into_iter().flatten().all(|it| it == Released::Released));
        }
        redlock.settle().await;
        println!("{count} leases, dropped: {dropped}: {:?}", begin.elapsed());
        for server in &servers {
            let script = "return #redis.call('KEYS', '*lock:burst/*')";
            assert_eq!(server.cli(&["EVAL", script, "0"]), "0", "locks are left");
        }
    }
}

/// Acquires this many leases, 100 at a time.
async fn held(redlock: &Redlock, count: usize) -> Vec<Lease> {
    let mut leases = Vec::with_capacity(count);
    while leases.len() < count {
        let numbers = leases.len()..count.min(leases.len() + 100);
        let names = numbers.map(|number| Resource::new(format!("burst/{number}")).unwrap());
        let acquire = |name| async move { redlock.acquire(&name).await };
        for lease in join_all(names.map(acquire)).await {
            leases.push(lease.unwrap());
        }
    }
    leases
}
