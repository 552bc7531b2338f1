//! Settings of a server that were changed while it ran: it is looked at again before it is
//! admitted.

use crate::scripts::member::*;

fn may_evict(server: &RedisServer) {
    server.cli(&["CONFIG", "SET", "maxmemory", "100mb"]);
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
}

#[tokio::test]
async fn a_server_that_may_evict_by_now_is_not_prepared() {
    let server = RedisServer::start();
    let member = Member::alone(&server).await;
    member.prepare().await;
    may_evict(&server);
    let prepare = || Request::Prepare { nonce: Nonce(1), from: None };
    let evicts = Fault::MaxmemoryPolicy("allkeys-lru".into());
    assert_eq!(member.try_ask(prepare()).await, Err(evicts.clone()));
    // Nor is it opened.
    assert_eq!(node(&server).open(&fleet(&server)).await.err(), Some(evicts));
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    member.prepare().await;
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    assert_eq!(member.try_ask(prepare()).await, Err(Fault::NotMaster));
}

/// The client's session is older than the change.
#[tokio::test]
async fn a_flushed_server_that_may_evict_by_now_is_not_admitted() {
    let servers = servers(1);
    let server = &servers[0];
    let redlock =
        service(&servers).wait(Duration::ZERO).node_budget(Duration::from_secs(2)).build().unwrap();
    redlock.try_acquire(&resource()).await.unwrap().release().await.unwrap();
    may_evict(server);
    server.cli(&["FLUSHALL"]);
    // The first is told that the node has forgotten; then it was tried to bring it back.
    let wanted = "maxmemory-policy is allkeys-lru; it must be noeviction";
    let asks = async || redlock.acquire(&resource()).await.map_err(|error| error.to_string());
    until(wanted, async || asks().await.unwrap_err().contains(wanted)).await;
    assert_eq!(server.cli(&["HGET", MEMORY, "admitted"]), "");
    // It is admitted once the setting is right.
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    until("it grants", async || asks().await.is_ok()).await;
}
