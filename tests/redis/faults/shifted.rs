//! A connection that loses one answer and goes on with the next: Redis numbers nothing, so
//! each later answer looks like that of the request before.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::faults::{TTL, client};
use crate::fleet::*;
use crate::proxy::proxy;

/// The address of a proxy that swallows the next piece of what the server says on command.
fn swallowing(server: &RedisServer) -> (String, Arc<AtomicBool>) {
    let swallow = Arc::new(AtomicBool::new(false));
    let command = Arc::clone(&swallow);
    let url = proxy(server.socket(), move || {
        let command = Arc::clone(&command);
        move |answer| (!command.swap(false, Ordering::SeqCst)).then_some(answer)
    });
    (url, swallow)
}

/// `resource()` is held by another; a grant of another resource must not be taken for it.
#[tokio::test]
async fn an_answer_is_not_taken_for_the_one_before() {
    let server = RedisServer::start();
    let (url, swallow) = swallowing(&server);
    // The holder knows the server by its own name; this is how the proxy's client comes by it.
    let fleet = Fleet::new([server.url()]).unwrap();
    let holder = client(std::slice::from_ref(&server)).build().unwrap();
    let _held = holder.acquire(&resource()).await.unwrap();
    let session = RedisNode::new(&url, "fencing").unwrap().open(&fleet).await.unwrap();
    let free = named("free");
    let acquire = |resource, owner| {
        let (mode, owner) = (Mode::Exclusive, Owner(owner));
        session.call(Request::Acquire { mode, resource, owner, ttl: TTL })
    };
    swallow.store(true, Ordering::SeqCst);
    let mut held = acquire(resource(), 7);
    let early = timeout(Duration::from_millis(100), &mut held).await;
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
    let (url, swallow) = swallowing(&server);
    let builder = client(&[]).redis([url]).wait(Duration::from_secs(20));
    let redlock = builder.retry_delay(Duration::from_millis(5)).build().unwrap();
    let mut last = redlock.acquire(&resource()).await.unwrap().token();
    for round in 0..20 {
        swallow.store(true, Ordering::SeqCst);
        let lease = redlock.acquire(&resource()).await;
        let lease = lease.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(lease.token() > last, "round {round}");
        last = lease.token();
    }
}
