//! Locks that give a token too, those of this crate first, on servers of their own: etcd and ZooKeeper, one member
//! each. Both write to disk before they answer; so each is measured a second time where it does not, as redis-servers
//! without persistence don't.
//!
//! It needs Debian's `etcd-server`, `etcd-client` and `zookeeper`.

mod etcd;
mod zookeeper;

use std::sync::Arc;
use std::time::Instant;

use etcd::Etcd;
use fencing::Resource;
use fencing::lock::{self, Lock};
use support::etcd::EtcdCluster;
use support::zookeeper::ZookeeperServer;
use tokio::task::JoinSet;
use zookeeper::Zookeeper;

use crate::contestant::Contestant;
use crate::fleet;
use crate::rounds::{median, turns};
use crate::table::p50;

const TASKS: usize = 64;

/// Java as it is by itself, not as it is for tests; the last option writes to disk.
const JAVA: &[&str] = &["-Xmx512m", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-Dzookeeper.forceSync=yes"];

#[derive(Clone)]
enum Peer {
    Redlock(Box<Contestant>),
    /// This crate's leases in the same server.
    Ours(Arc<dyn Lock>),
    /// The `Lock` service of etcd, under one lease of the process: what `concurrency.Mutex` does.
    EtcdLock(Etcd),
    /// Curator's recipe.
    Zookeeper(Zookeeper),
}

impl Peer {
    async fn pair(&self, name: &str) {
        match self {
            Peer::Redlock(contestant) => contestant.pair(name).await,
            Peer::Ours(lock) => {
                let lease = lock.acquire(&Resource::new(name).unwrap()).await.unwrap();
                lease.release().await.unwrap();
            }
            Peer::EtcdLock(etcd) => {
                let key = etcd.lock(name).await;
                etcd.unlock(key).await;
            }
            Peer::Zookeeper(zookeeper) => zookeeper.pair(name).await,
        }
    }

    async fn side_by_side(&self) -> f64 {
        const PAIRS: usize = 10;
        let (start, mut running) = (Instant::now(), JoinSet::new());
        for task in 0..TASKS {
            let peer = self.clone();
            running.spawn(async move {
                for _ in 0..PAIRS {
                    peer.pair(&format!("task/{task}")).await;
                }
            });
        }
        running.join_all().await;
        (TASKS * PAIRS) as f64 / start.elapsed().as_secs_f64()
    }
}

/// All of them in one run, interleaved: p50 of one task, and pairs a second of 64.
pub async fn measure(rounds: usize) {
    let redis = support::redis::servers(5);
    let mut peers = Vec::new();
    for contestant in [Contestant::fencing(&fleet::urls(&redis)), Contestant::rslock(&fleet::urls(&redis))] {
        fleet::settle(std::slice::from_ref(&contestant)).await;
        let name = format!("{}, five redis-servers", contestant.name());
        peers.push((name, Peer::Redlock(Box::new(contestant))));
    }
    let mut servers = Vec::new();
    for (disk, said) in [(true, "on disk"), (false, "not on disk")] {
        let settings: &[&str] = if disk { &[] } else { &["--unsafe-no-fsync"] };
        let cluster = EtcdCluster::with(1, settings);
        let etcd = Etcd::connect(&cluster.host(0)).await;
        let ours = lock::connect(&cluster.url()).await.unwrap();
        peers.push((format!("etcd, fencing, {said}"), Peer::Ours(ours)));
        peers.push((format!("etcd, its Lock, {said}"), Peer::EtcdLock(etcd)));
        let server = ZookeeperServer::with_java("", if disk { JAVA } else { &JAVA[..3] });
        let zookeeper = Zookeeper::connect(&server.address()).await;
        let ours = lock::connect(&server.url()).await.unwrap();
        peers.push((format!("ZooKeeper, fencing, {said}"), Peer::Ours(ours)));
        peers.push((format!("ZooKeeper, Curator's recipe, {said}"), Peer::Zookeeper(zookeeper)));
        servers.push((cluster, server));
    }
    let (mut times, mut rates) = (vec![Vec::new(); peers.len()], vec![Vec::new(); peers.len()]);
    for which in turns(rounds, peers.len()) {
        for _ in 0..50 {
            let start = Instant::now();
            peers[which].1.pair("invoice/42").await;
            times[which].push(start.elapsed());
        }
        rates[which].push(peers[which].1.side_by_side().await);
    }
    let figures: Vec<_> = times.iter().map(|times| p50(times)).zip(rates.into_iter().map(median)).collect();
    println!("{:42}{:>9}{:>10}{:>10}{:>12}", "", "p50, us", "to ours", "pairs/s", "to ours");
    for ((name, _), (p50, rate)) in peers.iter().zip(&figures) {
        let (ours, our_rate) = figures[0];
        println!("{name:42}{p50:9.0}{:10.2}{rate:10.0}{:12.2}", p50 / ours, rate / our_rate);
    }
}
