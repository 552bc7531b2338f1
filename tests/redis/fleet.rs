//! Private redis-servers, the clients of them, and what most of their tests use.

pub use std::time::Duration;

pub use fencing::lock::redlock::{Node, RedisNode, RedlockBuilder, Session};
pub use fencing::lock::{AcquireError, Loss, Released};
pub use fencing::{Lease, Redlock, Resource, Token};
pub use fencing_protocol::{Fault, Fleet, Nonce, Owner, Reply, Request};
pub use futures_util::FutureExt;
pub use futures_util::future::try_join_all;
pub use support::lease::{assert_held, named, resource};
pub use support::process::PATIENCE;
pub use support::redis::{IN_MEMORY, RedisServer, five, servers, waiting};
pub use support::waiting::{in_time, until};
pub use tokio::task::JoinHandle;
pub use tokio::time::{sleep, timeout};

pub const MEMORY: &str = "{fencing}:memory";
pub const LOCK: &str = "{fencing}:lock:invoice/42";

/// A client that starts these servers for the first time.
pub fn service(servers: &[RedisServer]) -> RedlockBuilder {
    Redlock::builder().first_start(true).redis(servers.iter().map(RedisServer::url))
}

/// The same, with limits that servers on a busy machine keep.
pub fn steady(servers: &[RedisServer]) -> RedlockBuilder {
    service(servers).ttl(Duration::from_secs(120)).node_budget(Duration::from_secs(60))
}

pub async fn until_waiting(servers: &[RedisServer], many: usize) {
    let resource = resource();
    until("they wait", async || waiting(servers, resource.as_str()) == many).await;
}

pub fn notified(servers: &[RedisServer]) -> usize {
    servers.iter().map(|server| calls(server, "publish")).sum()
}

pub fn calls(server: &RedisServer, command: &str) -> usize {
    let stats = server.cli(&["INFO", "commandstats"]);
    let prefix = format!("cmdstat_{command}:calls=");
    let calls = stats.lines().find_map(|line| line.strip_prefix(&prefix)?.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}
