use std::sync::Arc;
use std::time::Duration;

use fencing::lock::Lock;
use fencing::{Redlock, Resource};
use rslock::LockManager;
use sqlx::PgPool;

use crate::bare::Bare;
use crate::peers::etcd::Etcd;
use crate::peers::zookeeper::Zookeeper;
use crate::scripts::Scripts;
use crate::serve::Http;

pub const TTL: Duration = Duration::from_secs(10);

/// Somebody who acquires and releases.
#[derive(Clone)]
pub enum Contestant {
    Bare(Bare),
    Scripts(Scripts),
    Rslock(LockManager),
    Fencing(Redlock),
    Served(Http),
    /// This crate's leases in another server.
    Ours(Arc<dyn Lock>),
    /// The `Lock` service of etcd, under one lease of the process: what `concurrency.Mutex` does.
    Etcd(Etcd),
    /// Curator's recipe.
    Zookeeper(Zookeeper),
    /// An advisory lock of PostgreSQL, which gives no token, ends with its connection, and is never on disk.
    Advisory(PgPool),
    /// The least that is on disk: a row that is put and deleted.
    Row(PgPool),
}

impl Contestant {
    /// All four, on the same servers, each with connections of its own.
    pub async fn all(urls: &[String]) -> Vec<Contestant> {
        let fencing = Contestant::fencing(urls);
        // The first lease admits the nodes.
        fencing.pair("warm").await;
        vec![
            Contestant::Bare(Bare::connect(urls).await),
            Contestant::Scripts(Scripts::connect(urls).await),
            Contestant::rslock(urls),
            fencing,
        ]
    }

    pub fn rslock(urls: &[String]) -> Contestant {
        Contestant::Rslock(LockManager::new(urls.to_vec()))
    }

    pub fn redlock(urls: &[String]) -> Redlock {
        Redlock::builder().first_start(true).redis(urls).ttl(TTL).build().unwrap()
    }

    pub fn fencing(urls: &[String]) -> Contestant {
        Contestant::Fencing(Contestant::redlock(urls))
    }

    pub fn name(&self) -> &'static str {
        match self {
            Contestant::Bare(_) => "bare",
            Contestant::Scripts(_) => "scripts",
            Contestant::Rslock(_) => "rslock",
            Contestant::Fencing(_) => "fencing",
            Contestant::Served(_) => "serve",
            Contestant::Ours(_) => "lease",
            Contestant::Etcd(_) => "etcd",
            Contestant::Zookeeper(_) => "ZooKeeper",
            Contestant::Advisory(_) => "advisory lock",
            Contestant::Row(_) => "row",
        }
    }

    /// Acquires, holds for so long, and releases. Returns whether it got the lock.
    pub async fn hold(&self, name: &str, hold: Duration) -> bool {
        match self {
            Contestant::Bare(bare) => {
                let Some(owner) = bare.acquire(name).await else { return false };
                pause(hold).await;
                bare.release(name, &owner).await;
            }
            Contestant::Scripts(scripts) => {
                let Some(lock) = scripts.acquire(name).await else { return false };
                pause(hold).await;
                scripts.release(lock).await;
            }
            Contestant::Rslock(manager) => {
                let Ok(guard) = manager.acquire(name, TTL).await else { return false };
                pause(hold).await;
                guard.release().await;
            }
            Contestant::Fencing(redlock) => {
                let resource = Resource::new(name).unwrap();
                let Ok(lease) = redlock.acquire(&resource).await else { return false };
                pause(hold).await;
                let _ = lease.release().await;
            }
            Contestant::Served(http) => {
                let Some(id) = http.acquire(name, "").await else { return false };
                pause(hold).await;
                let _ = http.release(&id).await;
            }
            Contestant::Ours(lock) => {
                let lease = lock.acquire(&Resource::new(name).unwrap()).await.unwrap();
                pause(hold).await;
                lease.release().await.unwrap();
            }
            Contestant::Etcd(etcd) => {
                let key = etcd.lock(name).await;
                pause(hold).await;
                etcd.unlock(key).await;
            }
            Contestant::Zookeeper(zookeeper) => {
                let path = zookeeper.lock(name).await;
                pause(hold).await;
                zookeeper.unlock(&path).await;
            }
            Contestant::Advisory(pool) => {
                let mut conn = pool.acquire().await.unwrap();
                sqlx::query("SELECT pg_advisory_lock(hashtext($1))").bind(name).execute(&mut *conn).await.unwrap();
                pause(hold).await;
                sqlx::query("SELECT pg_advisory_unlock(hashtext($1))").bind(name).execute(&mut *conn).await.unwrap();
            }
            Contestant::Row(pool) => {
                sqlx::query("INSERT INTO bare VALUES ($1)").bind(name).execute(pool).await.unwrap();
                pause(hold).await;
                sqlx::query("DELETE FROM bare WHERE name = $1").bind(name).execute(pool).await.unwrap();
            }
        }
        true
    }

    /// Acquires and releases at once.
    pub async fn pair(&self, name: &str) {
        assert!(self.hold(name, Duration::ZERO).await, "{} did not get a free lock", self.name());
    }
}

/// Waits for so long by the system's timer: that of tokio counts in milliseconds, and makes two of one.
async fn pause(hold: Duration) {
    if !hold.is_zero() {
        tokio::task::spawn_blocking(move || std::thread::sleep(hold)).await.unwrap();
    }
}
