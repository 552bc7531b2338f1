//! A lock that several share, on five real redis-servers.

use crate::fleet::*;

use support::redis::waiting;

const TTL: Duration = Duration::from_secs(6);

fn client(servers: &[RedisServer]) -> RedlockBuilder {
    // The counts of a node that is late on a busy machine may differ from those of the others.
    let patient = service(servers).ttl(TTL).wait(Duration::from_secs(60));
    patient.node_budget(Duration::from_secs(2))
}

async fn is_held(redlock: &Redlock) {
    assert_held(redlock.try_acquire(&resource()).await);
}

/// How many wait for the lock.
async fn until_waiting(servers: &[RedisServer], many: usize) {
    until("they wait", async || waiting(servers, resource().as_str()) == many).await;
}

/// How often the servers have notified somebody.
fn notified(servers: &[RedisServer]) -> usize {
    servers.iter().map(|server| calls(server, "publish")).sum()
}

/// One server dies, and another forgets: parts are renewed, joined and released meanwhile, and the next one
/// that holds the lock alone has a larger token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_dies_and_one_forgets() {
    let mut servers = five();
    let (here, elsewhere) = (client(&servers).build().unwrap(), client(&servers).build().unwrap());
    let before = here.acquire(&resource()).await.unwrap();
    let least = before.token();
    before.release().await.unwrap();
    let first = here.acquire_shared(&resource()).await.unwrap();
    let second = elsewhere.acquire_shared(&resource()).await.unwrap();
    assert!(first.token() > least && second.token() > least);
    servers[0].kill();
    servers[1].cli(&["FLUSHALL"]);
    is_held(&here).await;
    // Long enough that each part has been renewed more than once.
    sleep(TTL * 2).await;
    assert!(!first.valid_for().is_zero() && !second.valid_for().is_zero());
    let third = here.acquire_shared(&resource()).await.unwrap();
    is_held(&elsewhere).await;
    servers[0].restart();
    sleep(TTL * 2).await;
    assert!(!third.valid_for().is_zero());
    is_held(&elsewhere).await;
    let tokens = [first.token(), second.token(), third.token()];
    for part in [first, second, third] {
        is_held(&elsewhere).await;
        assert_eq!(part.release().await, Ok(Released::Released));
    }
    let alone = elsewhere.acquire(&resource()).await.unwrap();
    assert!(tokens.iter().all(|token| alone.token() > *token), "{tokens:?} {alone:?}");
    assert_held(here.try_acquire_shared(&resource()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_holder_that_leaves_notifies_a_waiter() {
    let servers = five();
    let never = Duration::from_secs(3600);
    let second = Duration::from_secs(1);
    let patient =
        || client(&servers).ttl(never).wait(never).retry_delay(second).node_budget(second);
    let here = client(&servers).ttl(never).build().unwrap();
    let parts = [
        here.acquire_shared(&resource()).await.unwrap(),
        here.acquire_shared(&resource()).await.unwrap(),
    ];
    let elsewhere = patient().build().unwrap();
    let writer = tokio::spawn(async move { elsewhere.acquire(&resource()).await.unwrap() });
    let readers = [patient().build().unwrap(), patient().build().unwrap()];
    until_waiting(&servers, 1).await;
    // Closed to clients that come now.
    let readers = readers.map(|reader| {
        tokio::spawn(async move { reader.acquire_shared(&resource()).await.unwrap() })
    });
    until_waiting(&servers, 3).await;
    assert_eq!(notified(&servers), 0);
    for part in parts {
        part.release().await.unwrap();
    }
    let alone = in_time(writer).await.unwrap();
    assert!(readers.iter().all(|reader| !reader.is_finished()));
    // Most have notified; on a busy machine some are late.
    let before = notified(&servers);
    assert!(before > 0, "{before}");
    let alone_token = alone.token();
    alone.release().await.unwrap();
    let [one, other] = readers;
    let (one, other) = (in_time(one).await.unwrap(), in_time(other).await.unwrap());
    // One that was late may have counted further.
    assert!(one.token() > alone_token && other.token() > alone_token);
    // The release has notified the one, and the grant to that one has notified the other.
    let notified = notified(&servers) - before;
    assert!(notified > 1, "{notified}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_wait_again_and_again_let_others_join_in_turn() {
    let servers = five();
    let hour = Duration::from_secs(3600);
    let build = || client(&servers).ttl(hour).build().unwrap();
    let (here, writer) = (build(), build());
    let part = here.acquire_shared(&resource()).await.unwrap();
    let members = |member: &str| {
        servers.iter().filter(|it| !it.cli(&["ZSCORE", LOCK, member]).is_empty()).count()
    };
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
