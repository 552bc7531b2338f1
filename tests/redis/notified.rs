//! Real servers notify waiters of releases, and nothing rests on it.

use std::time::{Duration, Instant};

use fencing::lock::Released;
use fencing::lock::redlock::{Node, RedisNode, RedlockBuilder};
use fencing::{Lease, Redlock, Resource};
use fencing_protocol::ClientId;
use support::redis::{RedisServer, five, waiting, with_rights};

/// Longer than any test takes.
const NEVER: Duration = Duration::from_secs(3600);
/// A hint that gets lost on a busy machine costs a few of these.
const POLL: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);

/// A process of its own, as far as the servers see.
fn process(servers: &[RedisServer]) -> RedlockBuilder {
    let urls = servers.iter().map(RedisServer::url);
    let builder = Redlock::builder().first_start(true).redis(urls).ttl(NEVER).wait(NEVER);
    builder.node_budget(Duration::from_secs(1)).retry_delay(POLL)
}

fn resource() -> Resource {
    Resource::new("invoice/42").unwrap()
}

/// Starts the servers, and holds the lock.
async fn held(servers: &[RedisServer]) -> Lease {
    let redlock = process(servers).retry_delay(Duration::from_millis(20)).build().unwrap();
    redlock.acquire(&resource()).await.unwrap()
}

/// Waits until this many wait for the lock.
fn until_waiting(servers: &[RedisServer], many: usize) {
    let end = Instant::now() + PATIENCE;
    while waiting(servers, resource().as_str()) != many {
        assert!(Instant::now() < end, "they do not wait");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Each release is notified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_notifies_the_next_client_elsewhere() {
    let servers = five();
    let lease = held(&servers).await;
    let mut waiters = Vec::new();
    for number in 0..8 {
        let redlock = process(&servers).build().unwrap();
        waiters.push(tokio::spawn(async move {
            let lease = redlock.acquire(&resource()).await.unwrap();
            let token = lease.token();
            lease.release().await.unwrap();
            token
        }));
        until_waiting(&servers, number + 1);
    }
    let mut tokens = vec![lease.token()];
    lease.release().await.unwrap();
    for waiter in waiters {
        let token = tokio::time::timeout(PATIENCE, waiter).await.unwrap().unwrap();
        tokens.push(token);
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 9);
    // Each release was notified by one server at least. In truth most notify; on a busy machine some are late.
    let notified = servers.iter().map(|server| {
        let stats = server.cli(&["INFO", "commandstats"]);
        let notified = stats.lines().find_map(|line| line.strip_prefix("cmdstat_publish:calls="));
        notified.map_or(0, |notified| notified.split(',').next().unwrap().parse::<usize>().unwrap())
    });
    let notified: usize = notified.sum();
    assert!(notified >= 8, "{notified}");
    // Nobody waits any more.
    until_waiting(&servers, 0);
}

/// One who is gone hears nothing, and so does not keep the next one from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_gone_is_passed_over() {
    let servers = five();
    let lease = held(&servers).await;
    let key = format!("{{fencing}}:waiting:{}", resource());
    for server in &servers {
        for client in 0..3 {
            // Since 1970.
            server.cli(&["ZADD", &key, "0", &format!("{client:032x} 1")]);
        }
    }
    let redlock = process(&servers).build().unwrap();
    let waiter = tokio::spawn(async move { redlock.acquire(&resource()).await.map(drop) });
    until_waiting(&servers, 4);
    lease.release().await.unwrap();
    tokio::time::timeout(PATIENCE, waiter).await.unwrap().unwrap().unwrap();
}

/// One that was notified and gives up lets the next one know.
#[tokio::test]
async fn who_leaves_after_it_was_notified_passes_it_on() {
    let servers = [RedisServer::start()];
    let lease = held(&servers).await;
    lease.release().await.unwrap();
    let node = RedisNode::new(&servers[0].url(), "fencing").unwrap();
    let mut first = node.listen(ClientId(1)).await.unwrap();
    let mut second = node.listen(ClientId(2)).await.unwrap();
    let notified = format!("{{fencing}}:notified:{}", resource());
    servers[0].cli(&["SET", &notified, &ClientId(1).to_string()]);
    assert_eq!(second.wait(&resource(), 7, POLL).await, Ok(false));
    first.leave(&resource(), 7).await.unwrap();
    let next = tokio::time::timeout(PATIENCE, second.notified()).await.unwrap();
    assert_eq!(next, Ok((resource(), 7)));
}

/// Users without the rights to notify and to hear wait, and poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_rights_a_client_polls() {
    for rights in ["-publish", "-subscribe", "resetchannels"] {
        let servers = five();
        for server in &servers {
            server.cli(&["ACL", "SETUSER", "default", rights]);
        }
        let settings = || process(&servers).retry_delay(Duration::from_millis(20));
        let lease = held(&servers).await;
        let redlock = settings().build().unwrap();
        let waiter = tokio::spawn(async move { redlock.acquire(&resource()).await.map(drop) });
        tokio::time::sleep(Duration::from_millis(200)).await;
        lease.release().await.unwrap();
        tokio::time::timeout(PATIENCE, waiter).await.unwrap().unwrap().unwrap();
    }
}

/// What anybody may write on the channels does not wake the wrong one, nor break anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_messages_do_no_harm() {
    let servers = five();
    let lease = held(&servers).await;
    let redlock = process(&servers).build().unwrap();
    let waiter = tokio::spawn(async move { redlock.acquire(&resource()).await.map(drop) });
    until_waiting(&servers, 1);
    for server in &servers {
        let channel = server.cli(&["PUBSUB", "CHANNELS", "{fencing}:wake:*"]);
        for message in ["", "x", "1", "1 ", "-1 a", "1 other", "99999999999999999999 a", "7 \u{7f}"]
        {
            server.cli(&["PUBLISH", &channel, message]);
        }
        server.cli(&["PUBLISH", &channel, &format!("1 {}", resource())]);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiter.is_finished());
    until_waiting(&servers, 1);
    lease.release().await.unwrap();
    tokio::time::timeout(PATIENCE, waiter).await.unwrap().unwrap().unwrap();
}

/// The rights of the guide are enough to acquire, to be notified, and to notify.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_rights_of_the_guide_is_notified() {
    let servers = five();
    let builder = as_the_guide_says(&servers);
    let first = builder.clone().build().unwrap();
    let lease = first.acquire(&resource()).await.unwrap();
    lease.renew().await.unwrap();
    let redlock = builder.retry_delay(POLL).build().unwrap();
    let waiter = tokio::spawn(async move { redlock.acquire(&resource()).await.map(drop) });
    until_waiting(&servers, 1);
    lease.release().await.unwrap();
    tokio::time::timeout(PATIENCE, waiter).await.unwrap().unwrap().unwrap();
}

/// And for several locks at once, and for locks that stay closed for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_rights_of_the_guide_shortens_several() {
    let servers = five();
    let redlock = as_the_guide_says(&servers).lock_at_least_for(Duration::from_millis(300));
    let redlock = redlock.retry_delay(POLL).build().unwrap();
    let several = ["a", "b", "c"].map(|name| Resource::new(name).unwrap());
    for _ in 0..2 {
        let lease = redlock.acquire(&several[0]);
        let lease = tokio::time::timeout(PATIENCE, lease).await.unwrap().unwrap();
        assert_eq!(lease.release().await, Ok(Released::Released));
        let lease = redlock.acquire_all(&several);
        let lease = tokio::time::timeout(PATIENCE, lease).await.unwrap().unwrap();
        assert_eq!(lease.release().await, Ok(Released::Released));
    }
}

/// Nothing but renewals goes to the nodes. One of them has forgotten, and is brought back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_forgot_is_noticed_by_renewals_of_several() {
    let servers = five();
    let builder = as_the_guide_says(&servers).ttl(Duration::from_secs(3));
    let redlock = builder.build().unwrap();
    let several = ["a", "b"].map(|name| Resource::new(name).unwrap());
    let lease = redlock.acquire_all(&several).await.unwrap();
    servers[0].cli(&["FLUSHALL"]);
    let until = tokio::time::Instant::now() + PATIENCE;
    while servers[0].cli(&["HEXISTS", "{fencing}:memory", "admitted"]).trim() != "1" {
        assert!(tokio::time::Instant::now() < until, "it is not brought back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(lease);
}

/// A user of the servers with the rights of docs/guide/production.md.
fn as_the_guide_says(servers: &[RedisServer]) -> RedlockBuilder {
    let builder =
        Redlock::builder().redis(with_rights(servers)).first_start(true).ttl(NEVER).wait(NEVER);
    builder.node_budget(Duration::from_secs(1))
}
