//! Every future dropped after each number of polls.

use std::pin::pin;
use std::time::{Duration, Instant};

use fencing::Redlock;

use crate::faults::resource;
use support::polled::polled;
use support::redis::{RedisServer, five};

/// Longer than anybody here waits: what is gone was released and has not expired.
const TTL: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(20);

fn client(servers: &[RedisServer]) -> Redlock {
    crate::faults::service(servers).ttl(TTL).wait(PATIENCE).build().unwrap()
}

/// The next caller gets it, and then no lock is left on any node.
async fn next_succeeds(redlock: &Redlock, servers: &[RedisServer], what: &str) {
    let lease = redlock.acquire(&resource()).await;
    lease.unwrap_or_else(|error| panic!("{what}: {error}")).release().await.unwrap();
    nothing_is_left(servers, what).await;
}

async fn nothing_is_left(servers: &[RedisServer], what: &str) {
    let end = Instant::now() + PATIENCE;
    for server in servers {
        loop {
            let left: i128 = server.cli(&["PTTL", "{fencing}:lock:invoice/42"]).parse().unwrap();
            assert!(left <= TTL.as_millis() as i128 && left != -1, "{what}: {left}");
            if left < 0 {
                break;
            }
            assert!(Instant::now() < end, "{what}: a lock is left");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// More polls than any of these futures takes without a holder in its way.
const MANY: usize = 200;

#[tokio::test]
async fn acquire() {
    let servers = five();
    let warm = client(&servers);
    next_succeeds(&warm, &servers, "first start").await;
    for fresh in [false, true] {
        for single in [false, true] {
            for polls in 0.. {
                let what = format!("fresh {fresh}, single {single}, {polls} polls");
                let fresh = fresh.then(|| client(&servers));
                let redlock = fresh.as_ref().unwrap_or(&warm);
                let outcome = if single {
                    polled(redlock.try_acquire(&resource()), polls).await
                } else {
                    polled(redlock.acquire(&resource()), polls).await
                };
                let done = outcome.is_some();
                drop(outcome);
                next_succeeds(redlock, &servers, &what).await;
                assert!(polls < MANY, "{what}");
                if done {
                    assert!(polls > 1, "nothing was ever dropped half way: {what}");
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn acquire_behind_a_holder_and_in_the_queue() {
    let servers = five();
    let redlock = client(&servers);
    let other = client(&servers);
    for polls in 0..12 {
        let held = other.acquire(&resource()).await.unwrap();
        assert!(polled(redlock.acquire(&resource()), polls).await.is_none());
        // One waits, and one behind it in the queue.
        {
            // One behind the holder, and one behind it in the queue, where the first
            // poll is the only one.
            let resource = resource();
            let mut first = pin!(redlock.acquire(&resource));
            assert!(polled(&mut first, polls + 1).await.is_none());
            assert!(polled(redlock.acquire(&resource), polls.min(1)).await.is_none());
        }
        held.release().await.unwrap();
        next_succeeds(&redlock, &servers, &format!("{polls} polls")).await;
    }
}

#[tokio::test]
async fn release() {
    let servers = five();
    let redlock = client(&servers);
    for polls in 0.. {
        let lease = redlock.acquire(&resource()).await.unwrap();
        let done = polled(lease.release(), polls).await.is_some();
        nothing_is_left(&servers, &format!("{polls} polls")).await;
        next_succeeds(&redlock, &servers, &format!("{polls} polls")).await;
        assert!(polls < MANY);
        if done {
            assert!(polls > 1, "nothing was ever dropped half way");
            break;
        }
    }
}

#[tokio::test]
async fn health() {
    let servers = five();
    let warm = client(&servers);
    next_succeeds(&warm, &servers, "first start").await;
    for fresh in [false, true] {
        for polls in 0.. {
            let what = format!("fresh {fresh}, {polls} polls");
            let fresh = fresh.then(|| client(&servers));
            let redlock = fresh.as_ref().unwrap_or(&warm);
            let done = polled(redlock.health(), polls).await.is_some();
            let end = Instant::now() + PATIENCE;
            // On a busy machine a node may be over its budget.
            while redlock.health().await.granting < 5 {
                assert!(Instant::now() < end, "{what}");
            }
            next_succeeds(redlock, &servers, &what).await;
            assert!(polls < MANY, "{what}");
            if done {
                assert!(polls > 1, "nothing was ever dropped half way: {what}");
                break;
            }
        }
    }
}
