//! A lock that several share, on five real redis-servers.

use crate::fleet::*;
use support::lease::release;

/// Longer than any test takes.
const NEVER: Duration = Duration::from_secs(3600);

fn client(servers: &[RedisServer]) -> RedlockBuilder {
    // The counts of a node that is late on a busy machine may differ from those of the others.
    service(servers).ttl(NEVER).wait(PATIENCE).node_budget(Duration::from_secs(10))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_holder_that_leaves_notifies_a_waiter() {
    let servers = five();
    let build = || client(&servers).retry_delay(Duration::from_secs(1)).build().unwrap();
    let here = build();
    let parts = [here.acquire_shared(&resource()).await.unwrap(), here.acquire_shared(&resource()).await.unwrap()];
    let (elsewhere, readers) = (build(), [build(), build()]);
    let writer = tokio::spawn(async move { elsewhere.acquire(&resource()).await.unwrap() });
    until_waiting(&servers, 1).await;
    // Closed to clients that come now.
    let readers = readers.map(|reader| tokio::spawn(async move { reader.acquire_shared(&resource()).await.unwrap() }));
    until_waiting(&servers, 3).await;
    // A reader that a late node lets in leaves it again, and notifies.
    let early = notified(&servers);
    for part in parts {
        release(part).await;
    }
    let alone = in_time(writer).await.unwrap();
    assert!(readers.iter().all(|reader| !reader.is_finished()));
    // Most have notified; on a busy machine some are late.
    let before = notified(&servers);
    assert!(before > early, "{before}");
    let alone_token = alone.token();
    alone.release().await.unwrap();
    let [one, other] = readers;
    let (one, other) = (in_time(one).await.unwrap(), in_time(other).await.unwrap());
    // One that was late may have counted further.
    assert!(one.token() > alone_token && other.token() > alone_token);
    // The release has notified the one, and the grant to that one has notified the other.
    assert!(notified(&servers) > before + 1, "{before}, {}", notified(&servers));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_wait_again_and_again_let_others_join_in_turn() {
    let servers = five();
    let build = || client(&servers).build().unwrap();
    let (here, writer) = (build(), build());
    let part = here.acquire_shared(&resource()).await.unwrap();
    let members = |member: &str| servers.iter().filter(|it| !it.cli(&["ZSCORE", LOCK, member]).is_empty()).count();
    // Of the 20 s in which others may join, this is left.
    let turn = |rest: u128| {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
        for server in &servers {
            server.cli(&["ZADD", LOCK, &(now + rest).to_string(), "drained"]);
        }
    };
    let brief = writer.with_wait(Duration::from_secs(1)).unwrap();
    turn(19_000);
    assert_held(brief.acquire(&resource()).await);
    writer.settle().await;
    assert_eq!(members("draining"), 0);
    let joined = here.try_acquire_shared(&resource()).await.unwrap();
    assert_eq!(joined.token(), part.token());
    // Nothing of the turns is in the way of anybody when all have left.
    part.release().await.unwrap();
    joined.release().await.unwrap();
    here.settle().await;
    assert_eq!(members("drained"), 0);
    let next = here.acquire_shared(&resource()).await.unwrap();
    next.release().await.unwrap();
    writer.acquire(&resource()).await.unwrap().release().await.unwrap();
}
