//! One `Redlock` in several runtimes.

use tokio::runtime::{Builder, Runtime};

use crate::fleet::*;

fn client(builder: RedlockBuilder) -> Redlock {
    let builder = builder.ttl(Duration::from_secs(3)).wait(PATIENCE);
    builder.node_budget(Duration::from_secs(1)).build().unwrap()
}

async fn lease(redlock: &Redlock) -> Result<(), AcquireError> {
    let _ = redlock.acquire(&resource()).await?.release().await;
    Ok(())
}

#[test]
fn nodes_come_back_in_a_second_runtime_as_well() {
    let servers = five();
    let redlock = client(service(&servers));
    Runtime::new().unwrap().block_on(lease(&redlock)).unwrap();
    let second = Runtime::new().unwrap();
    second.block_on(lease(&redlock)).unwrap();
    servers.iter().take(4).for_each(|server| drop(server.cli(&["FLUSHALL"])));
    second.block_on(lease(&redlock)).unwrap();
}

#[test]
fn a_runtime_that_stands_still_is_an_error_and_no_hang() {
    let servers = five();
    let redlock = client(service(&servers));
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

/// Where the nodes are quiet, an attempt waits for no other task: none runs while this one looks.
#[tokio::test]
async fn what_a_quiet_client_asks_is_sent_at_once() {
    let servers = five();
    let redlock = client(service(&servers));
    for number in 0..20 {
        // A session that was idle for a second is checked first, on a busy machine too.
        lease(&redlock).await.unwrap();
        let name = format!("at-once-{number}");
        let resource = Resource::new(&*name).unwrap();
        let mut attempt = std::pin::pin!(redlock.acquire(&resource));
        let polled = futures_util::poll!(attempt.as_mut());
        assert!(polled.is_pending());
        let is_there = |_| {
            std::thread::sleep(Duration::from_millis(50));
            servers[0].cli(&["KEYS", "*at-once-*"]).contains(&name)
        };
        if (0..20).any(is_there) {
            return;
        }
        attempt.await.unwrap().release().await.unwrap();
    }
    panic!("nothing was sent until another task ran");
}
