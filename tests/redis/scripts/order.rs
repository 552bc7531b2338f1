//! What one client sends to a server arrives in its order.

use futures_util::future::join_all;
use tokio::task::unconstrained;

use crate::scripts::member::*;

/// Some requests are sent while others are written. An attempt that is dropped takes its lock back: the release must not
/// come before the request for the lock, or the lock stays for its TTL.
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
