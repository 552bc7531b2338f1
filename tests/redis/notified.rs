//! Real servers notify waiters of releases, and nothing rests on it. A lock that several share.

use crate::fleet::*;
use fencing::lock::Notice;
use fencing_protocol::ClientId;
use support::lease::release;
use support::redis::with_rights;

/// Longer than any test takes.
const NEVER: Duration = Duration::from_secs(3600);
/// A hint that gets lost on a busy machine costs a few of these.
const POLL: Duration = Duration::from_secs(1);

/// A process of its own, as far as the servers see.
fn process(servers: &[RedisServer]) -> RedlockBuilder {
    patient(service(servers)).retry_delay(POLL)
}

fn patient(builder: RedlockBuilder) -> RedlockBuilder {
    builder.ttl(NEVER).wait(NEVER).node_budget(Duration::from_secs(10))
}

/// A task that waits for the lock elsewhere, and gives it back.
fn waiter(builder: RedlockBuilder) -> JoinHandle<Token> {
    let redlock = builder.build().unwrap();
    tokio::spawn(async move {
        let lease = redlock.acquire(&resource()).await.unwrap();
        let token = lease.token();
        lease.release().await.unwrap();
        token
    })
}

/// Starts the servers, and holds the lock.
async fn held(servers: &[RedisServer]) -> Lease {
    let redlock = process(servers).retry_delay(Duration::from_millis(20)).build().unwrap();
    redlock.acquire(&resource()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_notifies_the_next_client_elsewhere() {
    let servers = five();
    let lease = held(&servers).await;
    let mut waiters = Vec::new();
    for number in 0..8 {
        waiters.push(waiter(process(&servers)));
        until_waiting(&servers, number + 1).await;
    }
    let mut tokens = vec![lease.token()];
    lease.release().await.unwrap();
    for waiter in waiters {
        tokens.push(in_time(waiter).await.unwrap());
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 9);
    // Each release was notified by one server at least. In truth most notify; on a busy machine some are late.
    assert!(notified(&servers) >= 8, "{}", notified(&servers));
    // Nobody waits any more.
    until_waiting(&servers, 0).await;
}

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
    let waiter = waiter(process(&servers));
    until_waiting(&servers, 4).await;
    lease.release().await.unwrap();
    in_time(waiter).await.unwrap();
}

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
    second.wait(&resource(), 7, POLL);
    let registered = Notice::Registered { resource: resource(), registration: 7, free: false };
    assert_eq!(in_time(second.next()).await, Ok(registered));
    first.leave(&resource(), 7);
    assert_eq!(in_time(first.next()).await, Ok(Notice::Left));
    assert_eq!(in_time(second.next()).await, Ok(Notice::Released { resource: resource(), registration: 7 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_rights_a_client_polls() {
    for rights in ["-publish", "-subscribe", "resetchannels"] {
        let servers = five();
        for server in &servers {
            server.cli(&["ACL", "SETUSER", "default", rights]);
        }
        let lease = held(&servers).await;
        let waiter = waiter(process(&servers).retry_delay(Duration::from_millis(20)));
        sleep(Duration::from_millis(200)).await;
        lease.release().await.unwrap();
        in_time(waiter).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_messages_do_no_harm() {
    let servers = five();
    let lease = held(&servers).await;
    let waiter = waiter(process(&servers));
    until_waiting(&servers, 1).await;
    for server in &servers {
        let channel = server.cli(&["PUBSUB", "CHANNELS", "{fencing}:wake:*"]);
        for message in ["", "x", "1", "1 ", "-1 a", "1 other", "99999999999999999999 a", "7 \u{7f}"] {
            server.cli(&["PUBLISH", &channel, message]);
        }
        server.cli(&["PUBLISH", &channel, &format!("1 {}", resource())]);
    }
    sleep(Duration::from_millis(100)).await;
    assert!(!waiter.is_finished());
    until_waiting(&servers, 1).await;
    lease.release().await.unwrap();
    in_time(waiter).await.unwrap();
}

/// Also where it acquires several locks at once, and where they stay closed for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_rights_of_the_guide_is_notified() {
    let servers = five();
    let builder = as_the_guide_says(&servers).retry_delay(POLL);
    let least = builder.clone().lock_at_least_for(Duration::from_millis(300)).build().unwrap();
    let several = ["invoice/42", "b", "c"].map(named);
    for _ in 0..2 {
        let lease = in_time(least.acquire(&resource())).await.unwrap();
        lease.renew().await.unwrap();
        release(lease).await;
        release(in_time(least.acquire_all(&several)).await.unwrap()).await;
    }
    let lease = in_time(builder.clone().build().unwrap().acquire(&resource())).await.unwrap();
    let waiter = waiter(builder);
    until_waiting(&servers, 1).await;
    release(lease).await;
    in_time(waiter).await.unwrap();
}

/// Nothing but renewals goes to the nodes. One of them has forgotten, and is brought back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_forgot_is_noticed_by_renewals_of_several() {
    let servers = five();
    let builder = as_the_guide_says(&servers).ttl(Duration::from_secs(10)).node_budget(Duration::from_secs(1));
    let redlock = builder.build().unwrap();
    let several = ["a", "b"].map(named);
    let lease = redlock.acquire_all(&several).await.unwrap();
    servers[0].cli(&["FLUSHALL"]);
    let back = async || servers[0].cli(&["HEXISTS", MEMORY, "admitted"]) == "1";
    until("it is brought back", back).await;
    drop(lease);
}

/// A user of the servers with the rights of docs/guide/production.md.
fn as_the_guide_says(servers: &[RedisServer]) -> RedlockBuilder {
    patient(Redlock::builder().redis(with_rights(servers)).first_start(true))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_holder_that_leaves_notifies_a_waiter() {
    let servers = five();
    let build = || process(&servers).wait(PATIENCE).build().unwrap();
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
    let build = || patient(service(&servers)).wait(PATIENCE).build().unwrap();
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
