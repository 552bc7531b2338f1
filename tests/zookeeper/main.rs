//! Leases on real ZooKeeper servers.

mod moves;
mod operator;
mod proxy;
mod servers;

use std::time::Duration;

use fencing::lock::Fault;
use fencing::lock::zookeeper::{ZookeeperLock, ZookeeperLockBuilder};
use support::lease::fault;
use support::zookeeper::ZookeeperServer;
use tokio::time::{Instant, sleep};
use zookeeper_client::Client;

/// A machine that is busy with other tests must not look like servers that are down.
fn on(server: &ZookeeperServer) -> ZookeeperLockBuilder {
    ZookeeperLock::builder(server.url()).budget(Duration::from_secs(7)).ttl(Duration::from_secs(15))
}

/// A client that does what it likes.
async fn by_hand(server: &ZookeeperServer) -> Client {
    Client::connect(&server.address()).await.unwrap()
}

/// Asks until it is so.
async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let mut found = None;
    let asked = support::waiting::until(what, async || {
        found = ask().await;
        found.is_some()
    });
    asked.await;
    found.unwrap()
}
