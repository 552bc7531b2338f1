//! Every implementation of a trait keeps its contract, and the suites can fail.

mod broken_lock;
mod broken_marks;
mod broken_node;
mod lock;
mod node;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use fencing::fence::MemoryMarks;
use fencing::lock::ConnectOptions;
use fencing::lock::etcd::EtcdLock;
use fencing::lock::redlock::{MemoryNode, RedisNode, RedlockBuilder};
use fencing::lock::sql::SqlLock;
use fencing::lock::zookeeper::ZookeeperLock;
use fencing::sql;
use fencing::testing::{FaultyNode, marks_contract};
use fencing::{Redlock, Resource};
use futures_util::FutureExt;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};

use support::clock::TokioClock;
use support::etcd::EtcdCluster;
use support::lease::named as resource;
use support::place::{mysql, postgres};
use support::redis::{RedisServer, five};
use support::zookeeper::ZookeeperServer;

use lock::{lapse_contract, lock_contract, resume_contract, shared_contract};
use node::node_contract;

/// How long a suite waits for one answer: ten times what is already long.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Waits for an answer that must come.
async fn answered<T>(case: impl fmt::Display, answer: impl Future<Output = T>) -> T {
    let answer = tokio::time::timeout(ANSWER_WITHIN, answer).await;
    answer.unwrap_or_else(|_| panic!("{case}: no answer"))
}

/// Says what a suite found, which must fail.
async fn breach(suite: impl Future<Output = ()>) -> String {
    let panic = AssertUnwindSafe(suite).catch_unwind().await.unwrap_err();
    *panic.downcast().unwrap()
}

/// Names that a collation, a key or a field might confuse, and long ones.
fn names() -> Vec<Resource> {
    let confused = "R,r,r.,r/,r\u{301},\u{155},r\u{200b},r r,r  r,r%,{r},era,admitted,nonce";
    let long = [0, 1].map(|less| "n".repeat(Resource::MAX_BYTES - less));
    confused.split(',').chain(long.iter().map(String::as_str)).map(resource).collect()
}

fn nodes(clock: &TokioClock) -> Vec<MemoryNode> {
    (0..5).map(|number| MemoryNode::with_clock(format!("memory-{number}"), clock.clone())).collect()
}

/// A machine that is busy with other tests must not look like nodes that are down.
fn on_servers(servers: &[RedisServer]) -> RedlockBuilder {
    let budget = Duration::from_millis(900);
    Redlock::builder().first_start(true).redis(servers.iter().map(RedisServer::url)).node_budget(budget)
}

#[tokio::test(start_paused = true)]
async fn memory_node() {
    let node = MemoryNode::with_clock("memory", TokioClock::new());
    node_contract(&node).await;
}

#[tokio::test]
async fn memory_node_on_the_machines_clock() {
    node_contract(&MemoryNode::new("memory")).await;
}

/// Without a fault it is what it wraps.
#[tokio::test(start_paused = true)]
async fn faulty_node() {
    let node = MemoryNode::with_clock("memory", TokioClock::new());
    node_contract(&FaultyNode::new(node)).await;
}

#[tokio::test]
async fn redis_node() {
    if let Ok(url) = std::env::var("FENCING_TEST_NODE") {
        return node_contract(&RedisNode::new(&url, "fencing").unwrap()).await;
    }
    let server = RedisServer::start();
    node_contract(&RedisNode::new(&server.url(), "fencing").unwrap()).await;
    // Another namespace is another node.
    node_contract(&RedisNode::new(&server.url(), "other").unwrap()).await;
}

#[tokio::test]
async fn memory_marks() {
    marks_contract(&MemoryMarks::default()).await.unwrap();
}

/// A file of its own, whose writers wait for each other.
async fn sqlite(folder: &tempfile::TempDir) -> sqlx::SqlitePool {
    let file = SqliteConnectOptions::new().filename(folder.path().join("data.db"));
    let file = file.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
    let file = file.busy_timeout(Duration::from_secs(60));
    SqlitePoolOptions::new().max_connections(8).connect_with(file).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn redlock_on_memory_nodes() {
    let clock = TokioClock::new();
    let redlock = Redlock::builder().nodes(nodes(&clock)).clock(clock);
    lock_contract(&redlock.clone().build().unwrap()).await;
    shared_contract(&redlock.clone().build().unwrap()).await;
    let brief = redlock.renew(false).build().unwrap();
    lapse_contract(&brief).await;
    resume_contract(&brief, &brief, in_a_moment).await;
}

#[tokio::test]
async fn redlock_on_five_redis_servers() {
    let servers = five();
    lock_contract(&on_servers(&servers).build().unwrap()).await;
    shared_contract(&on_servers(&servers).build().unwrap()).await;
    let brief = || on_servers(&servers).ttl(Duration::from_secs(4)).renew(false).holder("one").build().unwrap();
    lapse_contract(&brief()).await;
    resume_contract(&brief(), &brief(), in_a_moment).await;
}

/// Runs the suites on a pool.
macro_rules! leases_in {
    ($pool:expr) => {
        let pool = $pool;
        sql::migrate(&pool).await.unwrap();
        lock_contract(&SqlLock::new(pool.clone())).await;
        shared_contract(&SqlLock::new(pool.clone())).await;
        let brief = |holder| {
            let brief = SqlLock::builder(pool.clone()).ttl(Duration::from_secs(4)).renew(false);
            brief.holder(holder).build().unwrap()
        };
        lapse_contract(&brief("one")).await;
        resume_contract(&brief("one"), &brief("another"), in_a_moment).await;
    };
}

#[tokio::test]
async fn lease_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    leases_in!(sqlite(&folder).await);
}

#[tokio::test]
async fn lease_in_postgres() {
    leases_in!(postgres::Place::empty().await.pool);
}

#[tokio::test]
async fn lease_in_mariadb() {
    leases_in!(mysql::Place::empty().await.pool);
}

#[tokio::test]
async fn lease_in_zookeeper() {
    let server = ZookeeperServer::start();
    let builder = || ZookeeperLock::builder(server.url());
    lock_contract(&builder().build().unwrap()).await;
    shared_contract(&builder().build().unwrap()).await;
    let brief = || builder().ttl(Duration::from_secs(4)).renew(false).build().unwrap();
    lapse_contract(&brief()).await;
    let let_go = async |resource: &Resource| until_gone(&server.url(), resource).await;
    resume_contract(&brief(), &brief(), let_go).await;
}

#[tokio::test]
async fn lease_in_etcd() {
    let cluster = EtcdCluster::start();
    let builder = EtcdLock::builder(cluster.url());
    lock_contract(&builder.clone().build().unwrap()).await;
    shared_contract(&builder.clone().build().unwrap()).await;
    let brief = || builder.clone().ttl(Duration::from_secs(4)).renew(false).build().unwrap();
    lapse_contract(&brief()).await;
    let let_go = async |resource: &Resource| until_gone(&cluster.url(), resource).await;
    resume_contract(&brief(), &brief(), let_go).await;
}

/// The servers' clocks may run behind by a little.
async fn in_a_moment(_: &Resource) {
    tokio::time::sleep(Duration::from_millis(500)).await;
}

/// The client of a lease deletes it when it lapses, later on a busy machine.
async fn until_gone(url: &str, resource: &Resource) {
    let operator = ConnectOptions::new(url).operator().unwrap();
    while !operator.leases_of(resource).await.is_ok_and(|leases| leases.is_empty()) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
