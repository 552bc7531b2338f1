//! A connection that loses one answer and goes on with the next: Redis numbers nothing, so
//! each later answer looks like that of the request before.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencing::lock::redlock::{Node, RedisNode};
use fencing::{Redlock, Resource};
use fencing_protocol::{Fault, Fleet, Mode, Owner, Request};

use crate::faults::{TTL, resource};
use support::redis::RedisServer;

/// The address of a proxy that swallows the next piece of what the server says on command.
fn proxy(server: PathBuf) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let swallow = Arc::new(AtomicBool::new(false));
    let command = Arc::clone(&swallow);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = UnixStream::connect(&server).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let (mut from, mut to, command) = (server, client, Arc::clone(&command));
            std::thread::spawn(move || {
                let mut bytes = vec![0; 1 << 16];
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    if !command.swap(false, Ordering::SeqCst)
                        && to.write_all(&bytes[..count]).is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    (url, swallow)
}

/// `resource()` is held by another; a grant of another resource must not be taken for it.
#[tokio::test]
async fn an_answer_is_not_taken_for_the_one_before() {
    let server = RedisServer::start();
    let (url, swallow) = proxy(server.socket());
    // The holder knows the server by its own name; this is how the proxy's client comes by it.
    let fleet = Fleet::new([server.url()]).unwrap();
    let holder =
        Redlock::builder().first_start(true).redis([server.url()]).ttl(TTL).build().unwrap();
    let _held = holder.acquire(&resource()).await.unwrap();
    let session = RedisNode::new(&url, "fencing").unwrap().open(&fleet).await.unwrap();
    let free = Resource::new("free").unwrap();
    let acquire = |resource, owner| {
        session.call(Request::Acquire {
            mode: Mode::Exclusive,
            resource,
            owner: Owner(owner),
            ttl: TTL,
        })
    };
    swallow.store(true, Ordering::SeqCst);
    let mut held = acquire(resource(), 7);
    let early = tokio::time::timeout(Duration::from_millis(100), &mut held).await;
    assert!(early.is_err(), "{early:?}");
    // Its answer comes next, and would be that of the first.
    let _other = tokio::spawn(acquire(free, 8));
    let answer = held.await;
    assert!(matches!(answer, Err(Fault::Disconnected(_))), "{answer:?}");
}

/// A client that goes on with such a connection never gets an answer in time again.
#[tokio::test]
async fn a_client_goes_on_over_another_connection() {
    let server = RedisServer::start();
    let (url, swallow) = proxy(server.socket());
    let redlock = Redlock::builder()
        .redis([url])
        .first_start(true)
        .ttl(TTL)
        .wait(Duration::from_secs(20))
        .retry_delay(Duration::from_millis(5))
        .build()
        .unwrap();
    let mut last = redlock.acquire(&resource()).await.unwrap().token();
    for round in 0..20 {
        swallow.store(true, Ordering::SeqCst);
        let lease = redlock.acquire(&resource()).await;
        let lease = lease.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(lease.token() > last, "round {round}");
        last = lease.token();
    }
}
