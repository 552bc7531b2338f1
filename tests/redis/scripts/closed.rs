//! A node that an operator has closed by hand: a quarantine key that never expires.

use std::time::Duration;

use fencing::lock::AcquireError;
use fencing::{Redlock, Resource};
use fencing_protocol::{Fault, Prepared, Reply, Request};

use crate::scripts::member::{Member, OTHER, OWNER, QUARANTINE, TTL, admitted};
use crate::scripts::resource;
use support::redis::RedisServer;

#[tokio::test]
async fn a_quarantine_without_an_end_is_one() {
    let (server, member) = admitted().await;
    let (token, nonce) = member.granted(OWNER, TTL).await;
    assert_eq!(server.cli(&["SET", QUARANTINE, "1"]), "OK");
    let free = Resource::new("free").unwrap();
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

#[tokio::test]
async fn the_error_says_that_the_node_is_closed() {
    let server = RedisServer::start();
    // A busy machine takes the processor from the server.
    let redlock = Redlock::builder().redis([server.url()]).node_budget(Duration::from_secs(2));
    let redlock = redlock.first_start(true).build().unwrap();
    redlock.acquire(&resource()).await.unwrap().release().await.unwrap();
    let redlock = redlock.with_wait(Duration::ZERO).unwrap();
    assert_eq!(server.cli(&["SET", QUARANTINE, "1"]), "OK");
    match redlock.acquire(&resource()).await {
        Err(AcquireError::NoQuorum { causes, .. }) => {
            assert!(matches!(causes[0].cause, Fault::Quarantined(_)), "{causes:?}");
        }
        other => panic!("{other:?}"),
    }
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
