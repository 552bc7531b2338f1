//! A node that an operator has closed by hand: a quarantine key that never expires.

use fencing_protocol::Prepared;

use crate::scripts::member::*;

#[tokio::test]
async fn a_quarantine_without_an_end_is_one() {
    let (server, member) = admitted().await;
    let (token, nonce) = member.granted(OWNER, TTL).await;
    assert_eq!(server.cli(&["SET", QUARANTINE, "1"]), "OK");
    let free = named("free");
    let hour = Duration::from_secs(3600);
    for reply in [
        member.acquire(free.clone(), OTHER, TTL).await,
        member.acquire(resource(), OWNER, TTL).await,
        member.renew(OWNER, token, TTL).await,
    ] {
        // It says that it is closed for long: nobody should come back at once.
        assert!(matches!(reply, Reply::Quarantined { remaining } if remaining > hour), "{reply:?}");
    }
    let report = member.ask(Request::Inspect).await;
    assert!(matches!(&report, Reply::Report { quarantine, .. } if *quarantine > Some(hour)));
    // A holder can still let go.
    assert_eq!(member.release(OWNER).await, Reply::Released);
    assert_eq!(member.ask(Request::Open { nonce }).await, Reply::Opened);
    assert!(matches!(member.acquire(free, OTHER, TTL).await, Reply::Granted { .. }));
}

/// An operator closes a node that has not been started, for good or for longer than a start takes.
#[tokio::test]
async fn a_start_shortens_no_quarantine() {
    let server = RedisServer::start();
    for (options, least) in [(&[][..], 3600), (&["PX", "600000"], 60)] {
        server.cli(&["FLUSHALL"]);
        let member = Member::alone(&server).await;
        let Prepared { incarnation, state, .. } = member.prepare().await;
        assert_eq!(server.cli(&[&["SET", QUARANTINE, "1"], options].concat()), "OK");
        let (nonce, quarantine) = (state.nonce, Duration::from_secs(1));
        let (era, collect, new) = (7, false, true);
        let start = Request::Activate { incarnation, nonce, era, collect, quarantine, new };
        assert_eq!(member.ask(start).await, Reply::Activated);
        let reply = member.acquire(resource(), OWNER, TTL).await;
        let least = Duration::from_secs(least);
        assert!(
            matches!(reply, Reply::Quarantined { remaining } if remaining > least),
            "{reply:?}"
        );
    }
}
