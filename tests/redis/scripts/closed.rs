//! A node that an operator has closed by hand: a quarantine key that never expires.

use crate::scripts::member::*;

/// It says that it is closed for long: nobody should come back at once.
#[track_caller]
fn closed_for(reply: Reply, least: Duration) {
    let closed = matches!(reply, Reply::Quarantined { remaining } if remaining > least);
    assert!(closed, "{reply:?}");
}

#[tokio::test]
async fn a_quarantine_without_an_end_is_one() {
    let (server, member) = admitted().await;
    let (stamp, nonce) = member.granted(ALICE, TTL).await;
    assert_eq!(server.cli(&["SET", QUARANTINE, "1"]), "OK");
    let (free, hour) = (named("free"), Duration::from_secs(3600));
    closed_for(member.ask(acquire(&free, BOB)).await, hour);
    closed_for(member.ask(acquire(&resource(), ALICE)).await, hour);
    closed_for(member.renew(ALICE, stamp, TTL).await, hour);
    let report = member.ask(Request::Inspect).await;
    assert!(matches!(&report, Reply::Report { quarantine, .. } if *quarantine > Some(hour)));
    // A holder can still let go.
    assert_eq!(member.release(ALICE).await, Reply::Released);
    assert_eq!(member.ask(Request::Open { nonce }).await, Reply::Opened);
    assert_granted(member.ask(acquire(&free, BOB)).await);
}

/// An operator closes a node that has not been started, for good or for longer than a start takes.
#[tokio::test]
async fn a_start_shortens_no_quarantine() {
    let server = RedisServer::start();
    for (options, least) in [(&[][..], 3600), (&["PX", "600000"], 60)] {
        server.cli(&["FLUSHALL"]);
        let member = Member::alone(&server).await;
        assert_eq!(server.cli(&[&["SET", QUARANTINE, "1"], options].concat()), "OK");
        let started = member.activate(7, false, Duration::from_secs(1)).await;
        assert_eq!(started, Reply::Activated);
        closed_for(member.ask(acquire(&resource(), ALICE)).await, Duration::from_secs(least));
    }
}
