//! Every implementation of a trait keeps its contract, and the suites can fail.

mod broken_lock;
mod broken_marks;
mod broken_node;

use std::time::Duration;

use fencing::Redlock;
use fencing::fence::MemoryMarks;
use fencing::lock::redlock::{MemoryNode, RedisNode, RedlockBuilder};
use fencing::lock::sql::SqlLock;
use fencing::sql::{self, SqlMarks};
use fencing::testing::{
    FaultyNode, lapse_contract, lock_contract, marks_contract, node_contract, shared_contract,
};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};

use support::clock::TokioClock;
use support::mariadb::MariadbServer;
use support::postgres::PostgresServer;
use support::redis::{RedisServer, five};

fn nodes(clock: &TokioClock) -> Vec<MemoryNode> {
    (0..5).map(|number| MemoryNode::with_clock(format!("memory-{number}"), clock.clone())).collect()
}

/// A machine that is busy with other tests must not look like nodes that are down.
fn on_servers(servers: &[RedisServer]) -> RedlockBuilder {
    let budget = Duration::from_millis(900);
    Redlock::builder()
        .first_start(true)
        .redis(servers.iter().map(RedisServer::url))
        .node_budget(budget)
}

#[tokio::test(start_paused = true)]
async fn memory_node() {
    let node = MemoryNode::with_clock("memory", TokioClock::new());
    node_contract(&node).await.unwrap();
}

#[tokio::test]
async fn memory_node_on_the_machines_clock() {
    node_contract(&MemoryNode::new("memory")).await.unwrap();
}

/// Without a fault it is what it wraps.
#[tokio::test(start_paused = true)]
async fn faulty_node() {
    let node = MemoryNode::with_clock("memory", TokioClock::new());
    node_contract(&FaultyNode::new(node)).await.unwrap();
}

#[tokio::test]
async fn redis_node() {
    let server = RedisServer::start();
    node_contract(&RedisNode::new(&server.url(), "fencing").unwrap()).await.unwrap();
    // Another namespace is another node.
    node_contract(&RedisNode::new(&server.url(), "other").unwrap()).await.unwrap();
}

#[tokio::test]
async fn memory_marks() {
    marks_contract(&MemoryMarks::default()).await.unwrap();
}

#[tokio::test]
async fn sqlite_marks() {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteConnectOptions::new().filename(folder.path().join("marks.db"));
    let file = file.create_if_missing(true).busy_timeout(Duration::from_secs(60));
    let pool = SqlitePoolOptions::new().max_connections(8).connect_with(file).await.unwrap();
    sql::migrate(&pool).await.unwrap();
    marks_contract(&SqlMarks::new(pool)).await.unwrap();
}

#[tokio::test]
async fn postgres_marks() {
    let server = PostgresServer::with(&["fsync=off"]);
    let options = server.database().await;
    let pool = PgPoolOptions::new().max_connections(8).connect_with(options).await.unwrap();
    sql::migrate(&pool).await.unwrap();
    marks_contract(&SqlMarks::new(pool)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn redlock_on_memory_nodes() {
    let clock = TokioClock::new();
    let redlock = Redlock::builder().nodes(nodes(&clock)).clock(clock);
    lock_contract(&redlock.clone().build().unwrap()).await.unwrap();
    shared_contract(&redlock.clone().build().unwrap()).await.unwrap();
    lapse_contract(&redlock.renew(false).build().unwrap()).await.unwrap();
}

#[tokio::test]
async fn redlock_on_five_redis_servers() {
    let servers = five();
    lock_contract(&on_servers(&servers).build().unwrap()).await.unwrap();
    shared_contract(&on_servers(&servers).build().unwrap()).await.unwrap();
    let brief = on_servers(&servers).ttl(Duration::from_secs(2)).renew(false);
    lapse_contract(&brief.build().unwrap()).await.unwrap();
}

#[tokio::test]
async fn lease_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteConnectOptions::new().filename(folder.path().join("leases.db"));
    let file = file.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePoolOptions::new().max_connections(8).connect_with(file).await.unwrap();
    sql::migrate(&pool).await.unwrap();
    lock_contract(&SqlLock::new(pool.clone())).await.unwrap();
    shared_contract(&SqlLock::new(pool.clone())).await.unwrap();
    let brief = SqlLock::builder(pool).ttl(Duration::from_secs(2)).renew(false);
    lapse_contract(&brief.build().unwrap()).await.unwrap();
}

#[tokio::test]
async fn lease_in_postgres() {
    let server = PostgresServer::with(&["fsync=off"]);
    let options = server.database().await;
    let pool = PgPoolOptions::new().max_connections(8).connect_with(options).await.unwrap();
    sql::migrate(&pool).await.unwrap();
    lock_contract(&SqlLock::new(pool.clone())).await.unwrap();
    shared_contract(&SqlLock::new(pool.clone())).await.unwrap();
    let brief = SqlLock::builder(pool).ttl(Duration::from_secs(2)).renew(false);
    lapse_contract(&brief.build().unwrap()).await.unwrap();
}

#[tokio::test]
async fn lease_in_mariadb() {
    let server = MariadbServer::with(&["innodb-flush-log-at-trx-commit=0"]);
    let options = server.database().await;
    let pool = MySqlPoolOptions::new().max_connections(8).connect_with(options).await.unwrap();
    sql::migrate(&pool).await.unwrap();
    lock_contract(&SqlLock::new(pool.clone())).await.unwrap();
    shared_contract(&SqlLock::new(pool.clone())).await.unwrap();
    let brief = SqlLock::builder(pool).ttl(Duration::from_secs(2)).renew(false);
    lapse_contract(&brief.build().unwrap()).await.unwrap();
}
