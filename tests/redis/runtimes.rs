//! One `Redlock` in several runtimes, and over connections that go dead underneath it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencing::lock::AcquireError;
use fencing::{Redlock, Resource};
use support::redis::{RedisServer, five};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

fn resource() -> Resource {
    Resource::new("invoice/42").unwrap()
}

fn service(servers: &[RedisServer]) -> Redlock {
    let urls = servers.iter().map(RedisServer::url);
    let builder = Redlock::builder().first_start(true).redis(urls).ttl(Duration::from_secs(1));
    builder.wait(Duration::from_secs(5)).node_budget(Duration::from_millis(250)).build().unwrap()
}

async fn lease(redlock: &Redlock) -> Result<(), AcquireError> {
    redlock.acquire(&resource()).await?.release().await.unwrap();
    Ok(())
}

#[test]
fn nodes_come_back_in_a_second_runtime_as_well() {
    let servers = five();
    let redlock = service(&servers);
    Runtime::new().unwrap().block_on(lease(&redlock)).unwrap();
    let second = Runtime::new().unwrap();
    second.block_on(lease(&redlock)).unwrap();
    servers.iter().take(4).for_each(|server| drop(server.cli(&["FLUSHALL"])));
    second.block_on(lease(&redlock)).unwrap();
}

#[test]
fn a_runtime_that_stands_still_is_an_error_and_no_hang() {
    let servers = five();
    let redlock = service(&servers);
    let still = Builder::new_current_thread().enable_all().build().unwrap();
    still.block_on(lease(&redlock)).unwrap();
    let redlock = redlock.with_wait(Duration::from_millis(500)).unwrap();
    let other = Builder::new_current_thread().enable_all().build().unwrap();
    let patience = Duration::from_secs(20);
    let outcome = other.block_on(async { timeout(patience, lease(&redlock)).await });
    let outcome = outcome.expect("the wait limit holds");
    assert!(matches!(outcome, Err(AcquireError::NoQuorum { .. })), "{outcome:?}");
    let health = other.block_on(async { timeout(patience, redlock.health()).await });
    assert!(!health.unwrap().has_quorum());
    // It goes on when the first is driven again.
    still.block_on(lease(&redlock)).unwrap();
}

/// Copies what comes as long as the epoch stays: a firewall that forgets connections.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    (epoch, born): (Arc<AtomicU64>, u64),
) {
    let mut bytes = vec![0; 65536];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let lives = epoch.load(Ordering::SeqCst) == born;
        if lives && to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

async fn proxy(socket: PathBuf, epoch: Arc<AtomicU64>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let server = UnixStream::connect(&socket).await.unwrap();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let life = || (Arc::clone(&epoch), epoch.load(Ordering::SeqCst));
            tokio::spawn(copy(from_client, to_server, life()));
            tokio::spawn(copy(from_server, to_client, life()));
        }
    });
    format!("redis://{address}")
}

#[tokio::test]
async fn connections_that_go_dead_are_opened_again() {
    let servers = five();
    let epoch = Arc::new(AtomicU64::new(0));
    let mut urls = Vec::new();
    for server in &servers {
        urls.push(proxy(server.socket(), Arc::clone(&epoch)).await);
    }
    let builder = Redlock::builder().first_start(true).redis(&urls).ttl(Duration::from_secs(1));
    let builder = builder.wait(Duration::from_secs(5)).node_budget(Duration::from_millis(250));
    let redlock = builder.build().unwrap();
    lease(&redlock).await.unwrap();
    epoch.fetch_add(1, Ordering::SeqCst);
    // A lease that is asked for and dropped over and over, across the change.
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        let _ = redlock.try_acquire(&resource()).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    lease(&redlock).await.unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while redlock.health().await.granting < 5 {
        assert!(Instant::now() < end, "a connection is still dead");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
