//! Every implementation of a trait keeps its contract, and the suites can fail.

mod broken_marks;
mod broken_node;
mod broken_operator;
mod lock;
mod node;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use fencing::fence::MemoryMarks;
use fencing::lock::etcd::EtcdLock;
use fencing::lock::redlock::{MemoryNode, RedisNode};
use fencing::lock::sql::SqlLock;
use fencing::lock::zookeeper::ZookeeperLock;
use fencing::lock::{ConnectOptions, Lock};
use fencing::sql;
use fencing::testing::{FaultyNode, marks_contract};
use fencing::{Redlock, Resource};
use futures_util::FutureExt;
use futures_util::future::try_join_all;
use sqlx::ConnectOptions as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};

use support::clock::TokioClock;
use support::etcd::EtcdCluster;
use support::lease::named as resource;
use support::place::{mysql, postgres};
use support::redis::{RedisServer, five};
use support::waiting::until;
use support::zookeeper::ZookeeperServer;

use lock::{
    ONE, delay_contract, early_release_contract, lapse_contract, line_contract, lock_contract, mixed_contract,
    names_contract, operator_contract, resume_contract, shared_contract,
};
use node::node_contract;

/// How long a suite waits for one answer: ten times what is already long.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

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

/// Also in a [`FaultyNode`]: without a fault it is what it wraps.
#[tokio::test(start_paused = true)]
async fn memory_node() {
    let node = || MemoryNode::with_clock("memory", TokioClock::new());
    node_contract(&node()).await;
    node_contract(&FaultyNode::new(node())).await;
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

/// Checks a service beside another one of its servers, which the URL and this budget alone open.
async fn locks_beside(url: &str, budget: Duration, one: &dyn Lock, part: Option<&str>) {
    let other = ConnectOptions::new(url).holder("other").ttl(STEADY).wait(Duration::from_secs(60));
    let other = other.budget(budget).connect().await.unwrap();
    lock_contract(one, &*other).await;
    shared_contract(one, &*other).await;
    names_contract(one, &*other, part).await;
    assert!(other.health().await.has_quorum(), "{url}");
}

/// The TTL of leases that last. The budget is half of a TTL, the most that is allowed: a machine busy with other
/// tests must not look like servers that are down.
const STEADY: Duration = Duration::from_secs(20);
/// The TTL of leases that end by themselves, or are released before a lock delay far longer than the others'.
const BRIEF: Duration = Duration::from_secs(12);
/// The TTL and the lock delay of those whose locks stay closed.
const DELAY: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn redlock_on_memory_nodes() {
    let clock = TokioClock::new();
    let redlock = Redlock::builder().nodes(nodes(&clock)).clock(clock).holder(ONE);
    let (one, other) = (redlock.clone().build().unwrap(), redlock.clone().build().unwrap());
    lock_contract(&one, &other).await;
    shared_contract(&one, &other).await;
    names_contract(&one, &other, Some(ONE)).await;
    let brief = redlock.renew(false);
    let [late, patient] = [1, 10].map(|times| brief.clone().ttl(DELAY).lock_delay(DELAY * times).build().unwrap());
    let brief = brief.build().unwrap();
    tokio::join!(
        delay_contract(&late, &patient, &one, DELAY),
        lapse_contract(&brief),
        early_release_contract(&brief, &brief),
        resume_contract(&brief, &brief, in_a_moment)
    );
}

/// All of its leases are in one service.
#[tokio::test]
async fn lock_by_the_url_of_memory() {
    let lock = ConnectOptions::new("memory:").holder(ONE).budget(Duration::from_secs(2)).connect().await.unwrap();
    lock_contract(&*lock, &*lock).await;
    shared_contract(&*lock, &*lock).await;
}

#[tokio::test]
async fn redlock_on_five_redis_servers() {
    let servers = five();
    // Nodes on a busy machine must not look down. No longer: a waiting writer keeps readers out for two budgets.
    let budget = Duration::from_secs(2);
    let one = || {
        let redlock = Redlock::builder().first_start(true).redis(servers.iter().map(RedisServer::url));
        redlock.node_budget(budget).holder(ONE)
    };
    let steady = one().ttl(STEADY).build().unwrap();
    locks_beside(&support::cli::urls(&servers), budget, &steady, Some(ONE)).await;
    let brief = || one().ttl(BRIEF).renew(false).build().unwrap();
    let (lapses, first, second) = (brief(), brief(), brief());
    tokio::join!(
        lapse_contract(&lapses),
        early_release_contract(&first, &second),
        resume_contract(&first, &second, in_a_moment)
    );
}

/// Runs the suites on a pool.
macro_rules! leases_in {
    ($pool:expr, $url:expr, $part:expr) => {
        let pool = $pool;
        sql::migrate(&pool).await.unwrap();
        let named = |holder| SqlLock::builder(pool.clone()).holder(holder);
        let lasting = |holder, ttl: Duration| named(holder).ttl(ttl).budget(ttl / 2);
        let one = lasting(ONE, STEADY).build().unwrap();
        locks_beside($url, STEADY / 2, &one, $part).await;
        operator_contract(&one, &pool).await;
        let [late, patient] = [(DELAY, 1), (BRIEF, 10)]
            .map(|(ttl, times)| lasting(ONE, ttl).lock_delay(DELAY * times).renew(false).build().unwrap());
        let six = (0..6).map(|_| ConnectOptions::new($url).ttl(STEADY).budget(STEADY / 2).connect());
        let six = try_join_all(six).await.unwrap();
        mixed_contract(&six.iter().map(|lock| &**lock).collect::<Vec<_>>()).await;
        let [first, second] = [ONE, "another"].map(|holder| lasting(holder, BRIEF).renew(false).build().unwrap());
        tokio::join!(
            delay_contract(&late, &patient, &one, DELAY),
            lapse_contract(&first),
            resume_contract(&first, &second, in_a_moment),
            early_release_contract(&first, &second)
        );
    };
}

#[tokio::test]
async fn lease_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("data.db").display());
    leases_in!(sqlite(&folder).await, &url, Some(ONE));
}

#[tokio::test]
async fn lease_in_postgres() {
    let pool = postgres::Place::empty().await.pool;
    let url = pool.connect_options().to_url_lossy();
    leases_in!(pool, url.as_str(), Some(ONE));
}

#[tokio::test]
async fn lease_in_mariadb() {
    let pool = mysql::Place::empty().await.pool;
    let url = pool.connect_options().to_url_lossy();
    // A part has no room for a name.
    leases_in!(pool, url.as_str(), None);
}

/// Runs the suites on a cluster with a line and sessions, which let go of what has lapsed.
macro_rules! leases_by {
    ($builder:expr, $url:expr, $places:expr) => {
        let lasting = |ttl: Duration| $builder.holder(ONE).ttl(ttl).budget(ttl / 2);
        let one = lasting(STEADY).build().unwrap();
        locks_beside($url, STEADY / 2, &one, Some(ONE)).await;
        let operator = ConnectOptions::new($url).operator().unwrap();
        operator_contract(&one, &*operator).await;
        let slow = || lasting(STEADY).retry_delay(ANSWER_WITHIN * 20).wait(ANSWER_WITHIN * 40).build().unwrap();
        let [late, patient] = [(DELAY, 1), (BRIEF, 10)]
            .map(|(ttl, times)| lasting(ttl).lock_delay(DELAY * times).renew(false).build().unwrap());
        let [lapses, first, second] = [(); 3].map(|()| lasting(BRIEF).renew(false).build().unwrap());
        // The client of a lease deletes it when it lapses, later on a busy machine.
        let let_go = async |resource: &Resource| {
            let gone = async || operator.leases_of(resource).await.is_ok_and(|leases| leases.is_empty());
            until("it is deleted", gone).await;
        };
        line_contract(&one, || Arc::new(slow()), $places).await;
        tokio::join!(
            delay_contract(&late, &patient, &one, DELAY),
            lapse_contract(&lapses),
            resume_contract(&first, &second, let_go),
            early_release_contract(&first, &second)
        );
    };
}

#[tokio::test]
async fn lease_in_zookeeper() {
    // A session lasts for 4/3 of the TTL and the lock delay.
    let server = ZookeeperServer::with("maxSessionTimeout=60000");
    let hand = zookeeper_client::Client::connect(&server.address()).await.unwrap();
    let places = async |resource: &Resource| {
        hand.list_children(&format!("/fencing/q/{resource}")).await.unwrap_or_default().len()
    };
    leases_by!(ZookeeperLock::builder(server.url()), &server.url(), places);
}

#[tokio::test]
async fn lease_in_etcd() {
    let cluster = EtcdCluster::start();
    let places = async |resource: &Resource| {
        let keys = cluster.ctl(&["get", "--prefix", &format!("fencing/q/{resource}"), "--keys-only"]);
        keys.split_whitespace().count()
    };
    leases_by!(EtcdLock::builder(cluster.url()), &cluster.url(), places);
}

/// The servers' clocks may run behind by a little.
async fn in_a_moment(_: &Resource) {
    tokio::time::sleep(Duration::from_millis(500)).await;
}
