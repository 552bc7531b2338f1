//! A lock that several share, on five real redis-servers.

use std::time::Duration;

use fencing::fence::{Fence, FenceError, MemoryMarks};
use fencing::lock::redlock::RedlockBuilder;
use fencing::lock::{AcquireError, Loss, Released};
use fencing::{Redlock, Resource};
use support::redis::{RedisServer, five, waiting};

const TTL: Duration = Duration::from_secs(2);

fn service(servers: &[RedisServer]) -> RedlockBuilder {
    let urls = servers.iter().map(RedisServer::url);
    let builder = Redlock::builder().first_start(true).redis(urls).ttl(TTL);
    // The counts of a node that is late on a busy machine may differ from those of the others.
    builder.wait(Duration::from_secs(60)).node_budget(Duration::from_millis(400))
}

fn resource() -> Resource {
    Resource::new("invoice/42").unwrap()
}

async fn is_held(redlock: &Redlock) {
    let found = redlock.try_acquire(&resource()).await;
    assert!(matches!(found, Err(AcquireError::Held { .. })), "{found:?}");
}

/// One server dies, and another forgets: parts are renewed, joined and released meanwhile, and the next one
/// that holds the lock alone has a larger token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_dies_and_one_forgets() {
    let mut servers = five();
    let (here, elsewhere) =
        (service(&servers).build().unwrap(), service(&servers).build().unwrap());
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
    tokio::time::sleep(TTL * 2).await;
    assert!(!first.valid_for().is_zero() && !second.valid_for().is_zero());
    let third = here.acquire_shared(&resource()).await.unwrap();
    is_held(&elsewhere).await;
    servers[0].restart();
    tokio::time::sleep(TTL * 2).await;
    assert!(!third.valid_for().is_zero());
    is_held(&elsewhere).await;
    let tokens = [first.token(), second.token(), third.token()];
    for part in [first, second, third] {
        is_held(&elsewhere).await;
        assert_eq!(part.release().await, Ok(Released::Released));
    }
    let alone = elsewhere.acquire(&resource()).await.unwrap();
    assert!(tokens.iter().all(|token| alone.token() > *token), "{tokens:?} {alone:?}");
    let refused = here.try_acquire_shared(&resource()).await;
    assert!(matches!(refused, Err(AcquireError::Held { .. })), "{refused:?}");
}

/// A holder that is stopped keeps its part until the end of its TTL, and no longer. When it goes on, its
/// lease is lost, and the fence refuses its token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_stopped_loses_its_part() {
    let servers = five();
    let stopped = service(&servers).renew(false).build().unwrap();
    let well = service(&servers).build().unwrap();
    let fence = Fence::new(MemoryMarks::default());
    let late = stopped.acquire_shared(&resource()).await.unwrap();
    let part = well.acquire_shared(&resource()).await.unwrap();
    // Clients that share the lock do not make each other stale: nothing has forgotten, so the counts agree.
    for token in [late.token(), part.token(), late.token()] {
        drop(fence.admit(&resource(), token).await.unwrap());
    }
    let writer = tokio::spawn(async move {
        let lease = well.acquire(&resource()).await.unwrap();
        (well, lease)
    });
    tokio::time::sleep(TTL / 4).await;
    // The other one is still in.
    part.release().await.unwrap();
    assert!(!writer.is_finished() || late.valid_for().is_zero());
    let (well, alone) = writer.await.unwrap();
    assert!(late.valid_for().is_zero());
    assert_eq!(late.lost().await, Loss::Expired);
    assert!(alone.token() > late.token());
    drop(fence.admit(&resource(), alone.token()).await.unwrap());
    let refused = fence.admit(&resource(), late.token()).await;
    assert!(matches!(refused, Err(FenceError::Stale(_))), "{refused:?}");
    assert!(late.renew().await.is_err());
    assert_eq!(late.release().await, Ok(Released::Lapsed));
    assert!(!alone.valid_for().is_zero());
    alone.release().await.unwrap();
    // Nothing is left of it on the servers.
    well.settle().await;
    let lock = format!("{{fencing}}:lock:{}", resource());
    for server in &servers {
        assert_eq!(server.cli(&["EXISTS", &lock]), "0");
    }
}

/// Who waits to hold it alone is notified by the last one that leaves, long before it would ask again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_holder_that_leaves_notifies_a_waiter() {
    let servers = five();
    let never = Duration::from_secs(3600);
    let second = Duration::from_secs(1);
    let patient =
        || service(&servers).ttl(never).wait(never).retry_delay(second).node_budget(second);
    let here = service(&servers).ttl(never).build().unwrap();
    let parts = [
        here.acquire_shared(&resource()).await.unwrap(),
        here.acquire_shared(&resource()).await.unwrap(),
    ];
    let elsewhere = patient().build().unwrap();
    let writer = tokio::spawn(async move { elsewhere.acquire(&resource()).await.unwrap() });
    let readers = [patient().build().unwrap(), patient().build().unwrap()];
    until(|| waiting(&servers, resource().as_str()) == 1).await;
    // Closed to clients that come now.
    let readers = readers.map(|reader| {
        tokio::spawn(async move { reader.acquire_shared(&resource()).await.unwrap() })
    });
    until(|| waiting(&servers, resource().as_str()) == 3).await;
    assert_eq!(notified(&servers), 0);
    for part in parts {
        part.release().await.unwrap();
    }
    let alone = tokio::time::timeout(Duration::from_secs(60), writer).await.unwrap().unwrap();
    assert!(readers.iter().all(|reader| !reader.is_finished()));
    // Most have notified; on a busy machine some are late.
    let before = notified(&servers);
    assert!(before > 0, "{before}");
    let alone_token = alone.token();
    alone.release().await.unwrap();
    let [one, other] = readers;
    let one = tokio::time::timeout(Duration::from_secs(60), one).await.unwrap().unwrap();
    let other = tokio::time::timeout(Duration::from_secs(60), other).await.unwrap().unwrap();
    // One that was late may have counted further.
    assert!(one.token() > alone_token && other.token() > alone_token);
    // The release has notified the one, and the grant to that one has notified the other.
    let notified = notified(&servers) - before;
    assert!(notified > 1, "{notified}");
}

/// A client that waits to hold it alone keeps others out in its turn, and not in theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_wait_again_and_again_let_others_join_in_turn() {
    let servers = five();
    let hour = Duration::from_secs(3600);
    let build = || service(&servers).ttl(hour).build().unwrap();
    let (here, writer) = (build(), build());
    let part = here.acquire_shared(&resource()).await.unwrap();
    let members = |member: &str| {
        let lock = format!("{{fencing}}:lock:{}", resource());
        servers.iter().filter(|it| !it.cli(&["ZSCORE", &lock, member]).is_empty()).count()
    };
    // Of the 20 s in which others may join, this is left.
    let turn = |rest: u128| {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
        for server in &servers {
            let lock = format!("{{fencing}}:lock:{}", resource());
            server.cli(&["ZADD", &lock, &(now + rest).to_string(), "drained"]);
        }
    };
    let brief = writer.with_wait(Duration::from_secs(1)).unwrap();
    turn(19_000);
    gives_up(&brief).await;
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

async fn gives_up(writer: &Redlock) {
    let found = writer.acquire(&resource()).await;
    assert!(matches!(found, Err(AcquireError::Held { .. })), "{found:?}");
}

/// How often the servers have notified somebody.
fn notified(servers: &[RedisServer]) -> usize {
    let notified = |server: &RedisServer| {
        let stats = server.cli(&["INFO", "commandstats"]);
        let notified = stats.lines().find_map(|line| line.strip_prefix("cmdstat_publish:calls="));
        notified.map_or(0, |notified| notified.split(',').next().unwrap().parse::<usize>().unwrap())
    };
    servers.iter().map(notified).sum()
}

async fn until(mut done: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(std::time::Instant::now() < end, "it never came");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
