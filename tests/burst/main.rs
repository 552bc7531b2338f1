//! Thousands of attempts at one moment, on five real redis-servers. Nothing else runs beside it: it takes all processors.

use std::time::Duration;

use fencing::{Redlock, Resource};
use support::redis::{RedisServer, five};

/// Makes so many attempts at one moment, with the default budget, and returns how many succeeded. The turn of each comes
/// within half of the TTL.
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

/// Each attempt has its whole budget, the default one, however many there are: on a quiet machine all succeed. Other work
/// may take the processors from the servers for longer than a budget, and one attempt in ten may fail then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_3000_and_of_10000_at_once_all_succeed() {
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
