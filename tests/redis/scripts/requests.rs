//! What one client sends to a server arrives in its order. A TTL is rounded up to milliseconds: a lock must not end
//! before its lease.

use futures_util::future::join_all;
use tokio::task::unconstrained;

use crate::scripts::member::*;

/// Some requests are sent while others are written. An attempt that is dropped takes its lock back: the release must
/// not come before the request for the lock, or the lock stays for its TTL.
#[tokio::test]
async fn no_release_overtakes_its_attempt() {
    let server = RedisServer::start();
    Member::in_era_7(&server).await;
    let session = node(&server).open(&fleet(&server), "me").await.unwrap();
    let name = |number: u128| named(&format!("burst/{number}"));
    unconstrained(async {
        let acquire = |number| ask_alone(&*session, acquire(&name(number), Owner(number)));
        let mut calls: Vec<_> = (1..=120).map(acquire).collect();
        for call in &mut calls {
            assert!(call.now_or_never().is_none());
        }
        // Those in front make room, and the next ones learn of it.
        calls.retain_mut(|call| call.now_or_never().is_none());
        let mut release = ask_alone(&*session, release(&name(110), Owner(110)));
        assert!((&mut release).now_or_never().is_none());
        calls.push(release);
        join_all(calls).await;
    })
    .await;
    let left = server.cli(&["KEYS", "*:lock:burst/*"]);
    assert_eq!(left.lines().count(), 119);
    assert!(!left.lines().any(|key| key.ends_with("/110")), "it stays for its TTL");
}

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
    assert_granted(member.ask(lasting(acquire(&resource(), BOB), Duration::from_micros(400))).await);
}
