//! Counts out of step: the publish is needed.

use std::time::Duration;

use crate::faults::{resource, service};
use support::redis::{RedisServer, five};

fn count(server: &RedisServer) -> u64 {
    server.cli(&["HGET", "{fencing}:memory", "c:invoice/42"]).parse().unwrap()
}

#[tokio::test]
async fn the_largest_count_is_published_to_a_majority() {
    let servers = five();
    let redlock = service(&servers).build().unwrap();
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
        assert_eq!(stands, largest + 1, "round {round}");
        for node in (0..5).filter(|node| !stopped.contains(node)) {
            assert_eq!(count(&servers[node]), stands, "round {round}: node {node}");
        }
        lease.release().await.unwrap();
        stopped.iter().for_each(|node| servers[*node].signal("CONT"));
    }
}

#[tokio::test]
async fn tokens_grow_through_ever_other_majorities() {
    let servers = five();
    let redlock = service(&servers).build().unwrap();
    let mut last = redlock.acquire(&resource()).await.unwrap().token();
    for round in 0..30 {
        let stopped = [round % 5, (round + 1 + round % 4) % 5];
        stopped.iter().for_each(|node| servers[*node].signal("STOP"));
        for number in 0..3 {
            let lease = redlock.acquire(&resource()).await.unwrap();
            assert!(lease.token() > last, "round {round}: {} after {last}", lease.token());
            last = lease.token();
            lease.release().await.unwrap();
            if number == 0 {
                // Past the node budget nothing more is sent to those that owe an answer.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        stopped.iter().for_each(|node| servers[*node].signal("CONT"));
    }
    let counts: Vec<u64> = servers.iter().map(count).collect();
    assert!(counts.iter().any(|count| *count != counts[0]), "never out of step: {counts:?}");
}
