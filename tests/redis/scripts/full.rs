//! A server too full for writes, and counts that pile up: the node says so. Its contract drops them in a larger era.

use fencing_protocol::Sealing;

use crate::scripts::member::*;

#[tokio::test]
async fn a_full_server_renews_what_it_has_and_can_be_left() {
    let server = RedisServer::with(&["--save", "", "--maxmemory", "8mb"]);
    let member = Member::in_era_7(&server).await;
    let (stamp, _) = member.granted(ALICE, TTL).await;
    // It holds more than that by itself.
    server.cli(&["CONFIG", "SET", "maxmemory", "1000"]);
    let refused = member.try_ask(acquire(&named("free"), BOB)).await;
    assert_eq!(refused, Err(Fault::OutOfMemory));
    assert_eq!(member.renew(ALICE, stamp, TTL * 3).await, Reply::Renewed);
    let lasts = u64::try_from(left(&server, LOCK)).unwrap();
    assert!(Duration::from_millis(lasts) > TTL * 2, "{lasts}");
    // A server that is too small is a reason to move the fleet.
    let from = fleet(&server);
    let own = from.members().next().unwrap().to_owned();
    let to = Fleet::new([own.as_str(), "larger"]).unwrap();
    let reply = member.ask(Request::Seal { to: to.clone(), step: Sealing::Leave }).await;
    assert!(matches!(reply, Reply::State(_)), "{reply:?}");
    let reply = member.ask(Request::Seal { to: to.clone(), step: Sealing::Promise(20) }).await;
    assert!(matches!(reply, Reply::State(state) if state.reserved == 20), "{reply:?}");
    let joining = Member::open(&node(&server), &to).await;
    let reply = joining.ask(Request::Prepare { nonce: Nonce(1), from: Some(from) }).await;
    let Reply::Prepared(prepared) = reply else { panic!("{reply:?}") };
    let nonce = prepared.state.nonce;
    let reply = joining.ask(Request::Reserve { era: 21, memory: Some(nonce) }).await;
    assert_eq!(reply, Reply::Reserved { nonce });
}

/// *Held* and *out of memory* are different answers: who waits for the first one will get the lock.
#[tokio::test]
async fn a_full_server_still_says_who_holds_a_lock() {
    let (server, member) = admitted().await;
    let acquire = |owner| acquire(&resource(), owner);
    let full = |bytes: &str| server.cli(&["CONFIG", "SET", "maxmemory", bytes]);
    let granted = member.ask(acquire(ALICE)).await;
    full("1000");
    let held = async |by_several| {
        let reply = member.ask(acquire(BOB)).await;
        let held = matches!(reply, Reply::Held { shared, remaining, .. }
            if shared == by_several && remaining > TTL / 2);
        assert!(held, "{reply:?}");
    };
    held(false).await;
    // The answer to the first one got lost.
    assert_eq!(member.ask(acquire(ALICE)).await, granted);
    member.release(ALICE).await;
    assert_eq!(member.try_ask(acquire(BOB)).await, Err(Fault::OutOfMemory));
    full("0");
    member.ask(share(&resource(), ALICE)).await;
    full("1000");
    held(true).await;
}

/// Adds the counts of this many resources.
pub fn fill(server: &RedisServer, counts: u32) {
    let script = "for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], 'c:r' .. i, 1) end";
    server.cli(&["EVAL", script, "1", MEMORY, &counts.to_string()]);
}

/// Whether a grant says that the node is crowded.
async fn said(member: &Member, name: &str, owner: Owner) -> bool {
    let reply = member.ask(acquire(&named(name), owner)).await;
    let Reply::Granted { crowded, .. } = reply else { panic!("{reply:?}") };
    crowded
}

#[tokio::test]
async fn a_crowded_node_says_so_and_only_then() {
    let (server, member) = admitted().await;
    fill(&server, 99_900);
    assert!(!said(&member, "first", ALICE).await);
    assert!(!member.prepare().await.crowded);
    // A client that takes it for crowded does not collect it.
    assert_eq!(member.activate(8, true, Duration::ZERO).await, Reply::Activated);
    assert_eq!(server.cli(&["HGET", MEMORY, "era"]), "7");
    fill(&server, 100_000);
    assert!(said(&member, "second", ALICE).await);
    assert!(said(&member, "second", ALICE).await, "asked again");
    assert!(member.prepare().await.crowded);
}
