//! A server that was killed and came back with its data: it may lack the last of it, and gives no
//! vote before it is admitted in its new life. It is looked at again before that: its settings may have changed.

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
    let (stamp, nonce) = member.granted(ALICE, TTL).await;
    let before = memory(&server);
    server.restart();
    // All of it is there, the lock too.
    assert_eq!(memory(&server), before);
    assert_eq!(server.cli(&["GET", LOCK]), format!("{ALICE} me"));
    let member = Member::alone(&server).await;
    let to = Fleet::new(["another"]).unwrap();
    let mut given = Vec::new();
    for vote in votes(&resource(), nonce, nonce, stamp.token().unwrap(), &to) {
        let reply = member.ask(vote.clone()).await;
        if reply != Reply::NotAdmitted {
            given.push((vote, reply));
        }
    }
    assert_eq!(given, []);
    let (collect, quarantine, new) = (false, Duration::ZERO, false);
    let activate = Request::Activate { nonce, era: 8, collect, quarantine, new };
    assert_eq!(member.ask(activate).await, Reply::Forgotten, "prepared in an older life");
    // Nothing of it has changed.
    assert_eq!(memory(&server), before);
    assert_eq!(server.cli(&["GET", LOCK]), format!("{ALICE} me"));
    // It is not new, and what it has promised stands.
    let prepared = member.prepare().await;
    assert!(!prepared.admitted && !prepared.blank, "{prepared:?}");
    assert_eq!(prepared.state.highest(), 7);
    member.admit(8).await;
    assert!(matches!(member.ask(Request::Read).await, Reply::State(_)));
}

#[tokio::test]
async fn a_server_that_may_evict_by_now_is_not_prepared() {
    let server = RedisServer::start();
    let member = Member::alone(&server).await;
    member.prepare().await;
    server.cli(&["CONFIG", "SET", "maxmemory", "100mb"]);
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let prepare = || Request::Prepare { nonce: Nonce(1), from: None };
    let evicts = Fault::MaxmemoryPolicy("allkeys-lru".into());
    assert_eq!(member.try_ask(prepare()).await, Err(evicts.clone()));
    // Nor is it opened.
    assert_eq!(node(&server).open(&fleet(&server), "me").await.err(), Some(evicts));
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    member.prepare().await;
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    assert_eq!(member.try_ask(prepare()).await, Err(Fault::NotMaster));
}
