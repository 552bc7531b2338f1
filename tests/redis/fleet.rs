//! Private redis-servers, the clients of them, and what most of their tests use.

pub use std::sync::{Arc, Mutex};
pub use std::time::Duration;

pub use fencing::lock::redlock::{Node, RedisNode, RedlockBuilder, Session};
pub use fencing::lock::{AcquireError, Loss, Released};
pub use fencing::{Lease, Redlock, Resource, Token};
pub use fencing_protocol::{Fault, Fleet, Nonce, Owner, Reply, Request};
pub use futures_util::FutureExt;
pub use support::redis::{IN_MEMORY, RedisServer, five, servers, waiting};
pub use tokio::task::JoinHandle;
pub use tokio::time::{Instant, sleep, timeout};

/// No machine is so busy that anything here takes longer.
pub const PATIENCE: Duration = Duration::from_secs(90);
pub const MEMORY: &str = "{fencing}:memory";
pub const LOCK: &str = "{fencing}:lock:invoice/42";

pub fn named(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

pub fn resource() -> Resource {
    named("invoice/42")
}

/// A client that starts these servers for the first time.
pub fn service(servers: &[RedisServer]) -> RedlockBuilder {
    Redlock::builder().first_start(true).redis(servers.iter().map(RedisServer::url))
}

/// Releases a lease that lasts.
pub async fn give_back<K>(lease: Lease<K>) {
    assert_eq!(lease.release().await, Ok(Released::Released));
}

/// Waits until this many wait for the lock.
pub async fn until_waiting(servers: &[RedisServer], many: usize) {
    let resource = resource();
    until("they wait", async || waiting(servers, resource.as_str()) == many).await;
}

/// How often the servers have notified somebody.
pub fn notified(servers: &[RedisServer]) -> usize {
    servers.iter().map(|server| calls(server, "publish")).sum()
}

#[track_caller]
pub fn assert_held<L: std::fmt::Debug>(found: Result<L, AcquireError>) {
    assert!(matches!(found, Err(AcquireError::Held { .. })), "{found:?}");
}

/// Asks again and again until it is so.
pub async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done().await {
        assert!(Instant::now() < end, "never: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for what comes sooner or later.
pub async fn in_time<F: IntoFuture>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("it hangs")
}

/// How often a server has run a command.
pub fn calls(server: &RedisServer, command: &str) -> usize {
    let stats = server.cli(&["INFO", "commandstats"]);
    let prefix = format!("cmdstat_{command}:calls=");
    let calls = stats.lines().find_map(|line| line.strip_prefix(&prefix)?.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// A TCP port that was free a moment ago.
pub fn port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}
