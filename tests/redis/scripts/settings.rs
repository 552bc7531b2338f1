//! Settings of a server that were changed while it ran: it is looked at again before it is
//! admitted.

use crate::scripts::member::*;

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
