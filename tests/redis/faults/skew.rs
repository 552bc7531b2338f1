//! Counts out of step: the publish is needed.

use crate::faults::client;
use crate::fleet::*;

const BUDGET: Duration = Duration::from_millis(250);

/// On a busy machine three servers answer within the budget, sooner or later.
fn patient(servers: &[RedisServer]) -> Redlock {
    let patient = client(servers).node_budget(BUDGET).wait(Duration::from_secs(60));
    patient.ttl(Duration::from_secs(5)).build().unwrap()
}

fn count(server: &RedisServer) -> u64 {
    server.cli(&["HGET", MEMORY, "c:invoice/42"]).parse().unwrap()
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
        servers[ahead].cli(&["HSET", MEMORY, "c:invoice/42", &largest.to_string()]);
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
