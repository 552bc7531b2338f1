//! A server that was killed and came back with its data: it may lack the last of it, and gives no
//! vote before it is admitted in its new life.

use fencing_protocol::Sealing;

use crate::scripts::member::*;

/// The memory, in an order of its own.
fn memory(server: &RedisServer) -> Vec<String> {
    let fields = server.cli(&["HGETALL", MEMORY]);
    let mut lines: Vec<String> = fields.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn a_server_that_restarted_with_its_data_gives_no_vote() {
    let mut server = RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let member = Member::in_era_7(&server).await;
    let (token, nonce) = member.granted(OWNER, TTL).await;
    let before = memory(&server);
    server.restart();
    // All of it is there, the lock too.
    assert_eq!(memory(&server), before);
    assert_eq!(server.cli(&["GET", LOCK]), OWNER.to_string());
    let member = Member::alone(&server).await;
    let (mode, owner, ttl) = (Mode::Exclusive, OWNER, TTL);
    let to = Fleet::new(["another"]).unwrap();
    let votes = [
        ("acquire", acquire(resource(), owner, ttl)),
        ("publish", Request::Publish { resource: resource(), owner, nonce, token }),
        ("renew", Request::Renew { mode, resource: resource(), owner, token, ttl }),
        ("release", Request::Release { resource: resource(), owner }),
        ("read", Request::Read),
        ("inspect", Request::Inspect),
        ("reserve", Request::Reserve { era: 9, memory: None }),
        ("reserve in the old memory", Request::Reserve { era: 9, memory: Some(nonce) }),
        ("leave", Request::Seal { to: to.clone(), step: Sealing::Leave }),
        ("promise to leave", Request::Seal { to: to.clone(), step: Sealing::Promise(9) }),
        ("leave for a fleet that was started", Request::Seal { to, step: Sealing::Done(9) }),
        ("open", Request::Open { nonce }),
    ];
    let mut given = Vec::new();
    for (name, request) in votes {
        let reply = member.ask(request).await;
        if reply != Reply::NotAdmitted {
            given.push((name, reply));
        }
    }
    assert_eq!(given, []);
    // Nothing of it has changed.
    assert_eq!(memory(&server), before);
    assert_eq!(server.cli(&["GET", LOCK]), OWNER.to_string());
    // It is not new, and what it has promised stands.
    let prepared = member.prepare().await;
    assert!(!prepared.admitted && !prepared.blank, "{prepared:?}");
    assert_eq!(prepared.state.highest(), 7);
    member.admit(8).await;
    assert!(matches!(member.ask(Request::Read).await, Reply::State(_)));
}
