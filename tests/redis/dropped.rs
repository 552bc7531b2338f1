//! An acquisition dropped after each number of polls, on new sessions. The contract of a lock drops it on sessions that
//! are open, and the other futures.

use crate::fleet::*;
use support::waiting::polled;

/// Longer than anybody here waits: what is gone was released and has not expired.
const TTL: Duration = Duration::from_secs(60);

fn client(servers: &[RedisServer]) -> Redlock {
    service(servers).ttl(TTL).node_budget(Duration::from_secs(20)).wait(Duration::from_secs(20)).build().unwrap()
}

/// The next caller gets it, and then no lock is left on any node.
async fn next_succeeds(redlock: &Redlock, servers: &[RedisServer], what: &str) {
    let lease = redlock.acquire(&resource()).await;
    lease.unwrap_or_else(|error| panic!("{what}: {error}")).release().await.unwrap();
    for server in servers {
        until(&format!("{what}: no lock is left"), async || {
            let left: i128 = server.cli(&["PTTL", LOCK]).parse().unwrap();
            assert!(left <= TTL.as_millis() as i128 && left != -1, "{what}: {left}");
            left < 0
        })
        .await;
    }
}

/// More polls than any of these futures takes without a holder in its way.
const MANY: usize = 200;

#[tokio::test]
async fn acquire() {
    let servers = five();
    next_succeeds(&client(&servers), &servers, "first start").await;
    for single in [false, true] {
        for polls in 0.. {
            let what = format!("single {single}, {polls} polls");
            let redlock = client(&servers);
            let done = match single {
                true => polled(redlock.try_acquire(&resource()), polls).await.is_some(),
                false => polled(redlock.acquire(&resource()), polls).await.is_some(),
            };
            next_succeeds(&redlock, &servers, &what).await;
            assert!(polls < MANY, "{what}");
            if done {
                assert!(polls > 1, "nothing was ever dropped half way: {what}");
                break;
            }
        }
    }
}
