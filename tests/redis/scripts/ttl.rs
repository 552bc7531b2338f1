//! A TTL is rounded up to milliseconds: a lock must not end before its lease.

use crate::scripts::member::*;

/// What the server was asked of late, one argument in a line.
fn asked(server: &RedisServer) -> Vec<String> {
    let log = server.cli(&["SLOWLOG", "GET", "-1"]);
    log.lines().map(|line| line.trim().to_owned()).collect()
}

#[tokio::test]
async fn a_part_of_a_millisecond_is_a_whole_one() {
    let (server, member) = admitted().await;
    server.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    let ttl = Duration::from_micros(600_000_500);
    let (stamp, _) = member.granted(ALICE, ttl).await;
    assert!(asked(&server).contains(&"600001".into()), "{:?}", asked(&server));
    let ttl = Duration::from_nanos(700_000_000_001);
    assert_eq!(member.renew(ALICE, stamp, ttl).await, Reply::Renewed);
    assert!(asked(&server).contains(&"700001".into()), "{:?}", asked(&server));
    // What is whole stays.
    assert_eq!(member.renew(ALICE, stamp, Duration::from_secs(800)).await, Reply::Renewed);
    assert!(asked(&server).contains(&"800000".into()), "{:?}", asked(&server));
}

/// Rounded down it would be nothing, and the server would refuse it.
#[tokio::test]
async fn less_than_a_millisecond_is_one() {
    let (_server, member) = admitted().await;
    assert_granted(
        member.ask(lasting(acquire(&resource(), BOB), Duration::from_micros(400))).await,
    );
}
