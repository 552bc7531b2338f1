//! A server without memory left for writes.

use fencing_protocol::Sealing;

use crate::scripts::member::*;

#[tokio::test]
async fn a_full_server_renews_what_it_has_and_can_be_left() {
    let server = RedisServer::with(&["--save", "", "--maxmemory", "8mb"]);
    let member = Member::in_era_7(&server).await;
    let (token, _) = member.granted(OWNER, TTL).await;
    // It holds more than that by itself.
    server.cli(&["CONFIG", "SET", "maxmemory", "1000"]);
    let refused = member.try_ask(acquire(named("free"), OTHER, TTL)).await;
    assert_eq!(refused, Err(Fault::OutOfMemory));
    assert_eq!(member.renew(OWNER, token, TTL * 3).await, Reply::Renewed);
    let lasts = u64::try_from(left(&server, LOCK)).unwrap();
    assert!(Duration::from_millis(lasts) > TTL * 2, "{lasts}");
    // A server that is too small is a reason to move the fleet.
    let from = fleet(std::slice::from_ref(&server));
    let own = from.members().next().unwrap().to_owned();
    let to = Fleet::new([own.as_str(), "larger"]).unwrap();
    let reply = member.ask(Request::Seal { to: to.clone(), step: Sealing::Leave }).await;
    assert!(matches!(reply, Reply::Sealed(_)), "{reply:?}");
    let reply = member.ask(Request::Seal { to: to.clone(), step: Sealing::Promise(20) }).await;
    assert!(matches!(reply, Reply::Sealed(state) if state.reserved == 20), "{reply:?}");
    let joining = Member::open(&server, &to).await;
    let reply = joining.ask(Request::Prepare { nonce: Nonce(1), from: Some(from) }).await;
    let Reply::Prepared(prepared) = reply else { panic!("{reply:?}") };
    let nonce = prepared.state.nonce;
    let reply = joining.ask(Request::Reserve { era: 21, memory: Some(nonce) }).await;
    assert_eq!(reply, Reply::Reserved { nonce });
}

/// *Held* and *out of memory* are different answers: who waits for the first one will get the lock.
#[tokio::test]
async fn a_full_server_still_says_who_holds_a_lock() {
    let server = RedisServer::with(&["--save", "", "--maxmemory", "8mb"]);
    let member = Member::in_era_7(&server).await;
    let acquire = |owner| acquire(resource(), owner, TTL);
    let full = |bytes: &str| server.cli(&["CONFIG", "SET", "maxmemory", bytes]);
    let granted = member.ask(acquire(OWNER)).await;
    full("1000");
    let reply = member.ask(acquire(OTHER)).await;
    assert!(matches!(reply, Reply::Held { remaining, .. } if remaining > TTL / 2), "{reply:?}");
    // The answer to the first one got lost.
    assert_eq!(member.ask(acquire(OWNER)).await, granted);
    member.release(OWNER).await;
    assert_eq!(member.try_ask(acquire(OTHER)).await, Err(Fault::OutOfMemory));
    full("8mb");
    member.ask(share(OWNER, TTL)).await;
    full("1000");
    let reply = member.ask(acquire(OTHER)).await;
    assert!(
        matches!(reply, Reply::Held { shared: true, remaining, .. } if remaining > TTL / 2),
        "{reply:?}"
    );
}
