//! Counts out of step: the publish is needed.

use std::time::Duration;

use fencing::Redlock;

use crate::faults::{resource, service};
use support::redis::{RedisServer, five};

const BUDGET: Duration = Duration::from_millis(250);

/// On a busy machine three servers answer within the budget, sooner or later.
fn patient(servers: &[RedisServer]) -> Redlock {
    let patient = service(servers).node_budget(BUDGET).wait(Duration::from_secs(60));
    patient.ttl(Duration::from_secs(5)).build().unwrap()
}

fn count(server: &RedisServer) -> u64 {
    server.cli(&["HGET", "{fencing}:memory", "c:invoice/42"]).parse().unwrap()
}

#[tokio::test]
async fn the_largest_count_is_published_to_a_majority() {
    let servers = five();
    let redlock = patient(&servers);
    let mut last = redlock.acquire(&resource()).await.unwrap().token();
    for round in 0..15 {
        let (ahead, stopped) = (round % 5, [(round + 1) % 5, (round + 3) % 5]);
        let largest =
            servers.iter().map(count).max().unwrap() + u64::try_from(round).unwrap() * 7 % 40;
        servers[ahead].cli(&["HSET", "{fencing}:memory", "c:invoice/42", &largest.to_string()]);
        // Only three answer: the one that is ahead has to be counted.
        stopped.iter().for_each(|node| servers[*node].signal("STOP"));
        let lease = redlock.acquire(&resource()).await.unwrap();
        assert!(lease.token() > last, "round {round}: {} after {last}", lease.token());
        last = lease.token();
        let stands = last.get() % 1_000_000;
        // An attempt that failed for want of an answer in time has counted as well.
        assert!(stands > largest, "round {round}: {stands}");
        for node in (0..5).filter(|node| !stopped.contains(node)) {
            assert_eq!(count(&servers[node]), stands, "round {round}: node {node}");
        }
        let _ = lease.release().await;
        stopped.iter().for_each(|node| servers[*node].signal("CONT"));
    }
}

#[tokio::test]
async fn tokens_grow_through_ever_other_majorities() {
    let servers = five();
    let redlock = patient(&servers);
    let mut last = redlock.acquire(&resource()).await.unwrap().token();
    for round in 0..20 {
        let stopped = [round % 5, (round + 1 + round % 4) % 5];
        stopped.iter().for_each(|node| servers[*node].signal("STOP"));
        for number in 0..3 {
            let lease = redlock.acquire(&resource()).await.unwrap();
            assert!(lease.token() > last, "round {round}: {} after {last}", lease.token());
            last = lease.token();
            // Where it is not confirmed in time, the next attempt waits for the end of the lease.
            let _ = lease.release().await;
            if number == 0 {
                // Past the node budget nothing more is sent to those that owe an answer.
                tokio::time::sleep(BUDGET * 2).await;
            }
        }
        stopped.iter().for_each(|node| servers[*node].signal("CONT"));
    }
    let counts: Vec<u64> = servers.iter().map(count).collect();
    assert!(counts.iter().any(|count| *count != counts[0]), "never out of step: {counts:?}");
}
