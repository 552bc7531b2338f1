//! Locks that give a token too, those of this crate first, on servers of their own: etcd and ZooKeeper, one member
//! each. Both write to disk before they answer; so each is measured a second time where it does not, as redis-servers
//! without persistence don't. And what a lease costs in PostgreSQL, with commits on disk.
//!
//! It needs Debian's `etcd-server`, `etcd-client`, `zookeeper` and `postgresql`.

pub mod etcd;
pub mod zookeeper;

use std::sync::Arc;
use std::time::Instant;

use etcd::Etcd;
use fencing::lock::{self, sql::SqlLock};
use sqlx::postgres::PgPoolOptions;
use support::etcd::EtcdCluster;
use support::postgres::PostgresServer;
use support::zookeeper::ZookeeperServer;
use zookeeper::Zookeeper;

use crate::contestant::Contestant;
use crate::fleet;
use crate::pairs::side_by_side;
use crate::rounds::{median, turns};
use crate::table::p50;

const TASKS: usize = 64;
const PAIRS: usize = 10;

/// Java as it is by itself, not as it is for tests; the last option writes to disk.
const JAVA: &[&str] = &["-Xmx512m", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-Dzookeeper.forceSync=yes"];

pub async fn measure(rounds: usize) {
    let redis = support::redis::servers(5);
    let mut peers = Vec::new();
    for contestant in [Contestant::fencing(&fleet::urls(&redis)), Contestant::rslock(&fleet::urls(&redis))] {
        fleet::settle(std::slice::from_ref(&contestant)).await;
        let name = format!("{}, five redis-servers", contestant.name());
        peers.push((name, contestant));
    }
    let mut servers = Vec::new();
    for (disk, said) in [(true, "on disk"), (false, "not on disk")] {
        let settings: &[&str] = if disk { &[] } else { &["--unsafe-no-fsync"] };
        let cluster = EtcdCluster::with(1, settings);
        let etcd = Etcd::connect(&cluster.host(0)).await;
        let ours = lock::connect(&cluster.url()).await.unwrap();
        peers.push((format!("etcd, fencing, {said}"), Contestant::Ours(ours)));
        peers.push((format!("etcd, its Lock, {said}"), Contestant::Etcd(etcd)));
        let server = ZookeeperServer::with_java("", if disk { JAVA } else { &JAVA[..3] });
        let zookeeper = Zookeeper::connect(&server.address()).await;
        let ours = lock::connect(&server.url()).await.unwrap();
        peers.push((format!("ZooKeeper, fencing, {said}"), Contestant::Ours(ours)));
        peers.push((format!("ZooKeeper, Curator's recipe, {said}"), Contestant::Zookeeper(zookeeper)));
        servers.push((cluster, server));
    }
    compare(&peers, rounds).await;
}

/// Leases in PostgreSQL, over pools of two sizes.
pub async fn on_postgres(rounds: usize) {
    let server = PostgresServer::start();
    let database = server.database().await;
    for size in [16, 64] {
        let pool = PgPoolOptions::new().max_connections(size).connect_with(database.clone()).await.unwrap();
        fencing::sql::migrate(&pool).await.unwrap();
        sqlx::query("CREATE TABLE IF NOT EXISTS bare (name text PRIMARY KEY)").execute(&pool).await.unwrap();
        let lease = Contestant::Ours(Arc::new(SqlLock::new(pool.clone())));
        let peers = [lease, Contestant::Advisory(pool.clone()), Contestant::Row(pool)];
        compare(&peers.map(|peer| (format!("{}, {size} connections", peer.name()), peer)), rounds).await;
    }
}

/// All of them in one run, interleaved: p50 of one task, and pairs a second of 64.
async fn compare(peers: &[(String, Contestant)], rounds: usize) {
    let (mut times, mut rates) = (vec![Vec::new(); peers.len()], vec![Vec::new(); peers.len()]);
    for which in turns(rounds, peers.len()) {
        let (_, peer) = &peers[which];
        for _ in 0..50 {
            let start = Instant::now();
            peer.pair("invoice/42").await;
            times[which].push(start.elapsed());
        }
        let elapsed = side_by_side(peer, TASKS, PAIRS).await;
        rates[which].push((TASKS * PAIRS) as f64 / elapsed.as_secs_f64());
    }
    let figures: Vec<_> = times.iter().map(|times| p50(times)).zip(rates.into_iter().map(median)).collect();
    println!("{:42}{:>9}{:>10}{:>10}{:>12}", "", "p50, us", "to ours", "pairs/s", "to ours");
    for ((name, _), (p50, rate)) in peers.iter().zip(&figures) {
        let (ours, our_rate) = figures[0];
        println!("{name:42}{p50:9.0}{:10.2}{rate:10.0}{:12.2}", p50 / ours, rate / our_rate);
    }
}
