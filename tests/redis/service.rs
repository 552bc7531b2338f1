//! The lock on real redis-servers whose connections are closed, and whose counts run out.

use crate::fleet::*;

async fn works(redlock: &Redlock, round: usize) {
    let lease = redlock.try_acquire(&resource()).await;
    let lease = lease.unwrap_or_else(|error| panic!("round {round}: {error}"));
    assert_eq!(lease.release().await, Ok(Released::Released), "round {round}");
}

/// Which connection is gone is known at once, and not when a request is lost with it: of those that were closed a
/// moment ago, and of those that a middlebox closes while they are idle.
#[tokio::test]
async fn connections_that_were_closed_cost_no_call() {
    let servers = five();
    let redlock = steady(&servers).build().unwrap();
    redlock.acquire(&resource()).await.unwrap().release().await.unwrap();
    for round in 0..20 {
        for idle in if round % 7 == 0 { &[0, 1100][..] } else { &[0] } {
            works(&redlock, round).await;
            redlock.settle().await;
            sleep(Duration::from_millis(*idle)).await;
            for server in &servers {
                server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            }
            sleep(Duration::from_millis(if *idle == 0 { 50 } else { 0 })).await;
            works(&redlock, round).await;
        }
    }
}

/// A fleet that was started while a clock was ahead, and whose counts run out. The error says how long it lasts, and
/// what to do: restart the nodes one after another.
#[tokio::test]
async fn counts_that_run_out_begin_again_when_the_nodes_are_restarted_one_by_one() {
    const LIMIT: Duration = Duration::from_secs(60);
    let mut servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::shifted(IN_MEMORY)).collect();
    servers[2].set_clock(3600);
    let redlock = service(&servers).ttl(Duration::from_secs(2)).wait(LIMIT).build().unwrap();
    let first = redlock.acquire(&resource()).await.unwrap();
    let last = first.token();
    let _ = first.release().await;
    servers[2].set_clock(0);
    for server in &servers {
        server.cli(&["HSET", MEMORY, "c:invoice/42", "999999"]);
    }
    until("the era is ahead", async || {
        let error = redlock.try_acquire(&resource()).await.unwrap_err();
        let is_ahead = |left: &Duration| *left > LIMIT * 10 && *left < LIMIT * 70;
        let ahead = |fault: &Fault| matches!(fault, Fault::EraAhead(left) if is_ahead(left));
        let ahead = error.causes().iter().filter(|it| ahead(&it.cause)).count() >= 2;
        assert!(!ahead || error.to_string().contains("one at a time"), "{error}");
        ahead
    })
    .await;
    for server in servers.iter_mut().take(2) {
        server.restart();
        // Whether the resource is free does not matter: an attempt has the node brought back.
        until("it grants", async || {
            match redlock.try_acquire(&resource()).await {
                Ok(lease) => drop(lease.release().await),
                Err(AcquireError::NoQuorum { .. } | AcquireError::Held { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            redlock.health().await.nodes.iter().all(|it| it.quarantine.is_none())
        })
        .await;
    }
    let next = redlock.acquire(&resource()).await.unwrap();
    assert!(next.token() > last, "{next:?} after {last}");
}
