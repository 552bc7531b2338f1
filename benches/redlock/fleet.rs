use std::time::Duration;

use fencing::Redlock;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use support::redis::{RedisServer, servers};

use crate::contestant::Contestant;
use crate::cpu::Cpu;

/// The processor time of this process and of the servers.
#[derive(Clone, Copy)]
pub struct Spent {
    pub client: Duration,
    pub servers: Duration,
}

impl Spent {
    pub fn now(servers: &[RedisServer]) -> Spent {
        let pids = servers.iter().map(RedisServer::pid).collect();
        Spent { client: Cpu::Own.so_far(), servers: Cpu::Of(pids).so_far() }
    }

    pub fn since(self, before: Spent) -> Spent {
        Spent { client: self.client - before.client, servers: self.servers - before.servers }
    }
}

pub fn urls(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(RedisServer::url).collect()
}

/// Whether a majority of these calls comes out well: it waits for no more of them than that.
pub async fn majority(calls: impl Iterator<Item = impl Future<Output = bool>>) -> bool {
    let mut calls: FuturesUnordered<_> = calls.collect();
    let (needed, mut votes) = (calls.len() / 2 + 1, 0);
    while let Some(is_vote) = calls.next().await {
        votes += usize::from(is_vote);
        if votes == needed {
            return true;
        }
    }
    false
}

/// Lets every contestant open its connections, and the nodes start.
pub async fn settle(contestants: &[Contestant]) {
    for contestant in contestants {
        contestant.pair("warm").await;
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    for contestant in contestants {
        for _ in 0..50 {
            contestant.pair("warm").await;
        }
    }
}

/// The servers of one row, and all contestants on them.
pub async fn of_all(nodes: usize) -> (Vec<RedisServer>, Vec<Contestant>) {
    let servers = servers(nodes);
    let contestants = Contestant::all(&urls(&servers)).await;
    settle(&contestants).await;
    (servers, contestants)
}

/// Five servers, and this crate alone on them.
pub async fn of_fencing() -> (Vec<RedisServer>, Redlock) {
    let servers = servers(5);
    let redlock = Contestant::redlock(&urls(&servers));
    settle(&[Contestant::Fencing(redlock.clone())]).await;
    (servers, redlock)
}
