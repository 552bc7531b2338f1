//! A fleet that was started while a clock was ahead, and whose counts run out.

use crate::faults::client;
use crate::fleet::*;

const LIMIT: Duration = Duration::from_secs(60);

/// The error says how long it lasts, and what to do: restart the nodes one after another.
#[tokio::test]
async fn counts_that_run_out_begin_again_when_the_nodes_are_restarted_one_by_one() {
    let mut servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::shifted(IN_MEMORY)).collect();
    servers[2].set_clock(3600);
    let redlock = client(&servers).wait(LIMIT).build().unwrap();
    let first = redlock.acquire(&resource()).await.unwrap();
    let last = first.token();
    first.release().await.unwrap();
    servers[2].set_clock(0);
    for server in &servers {
        server.cli(&["HSET", MEMORY, "c:invoice/42", "999999"]);
    }
    until("the era is ahead", async || {
        let error = redlock.try_acquire(&resource()).await.unwrap_err();
        let is_ahead = |left: &Duration| *left > LIMIT * 10 && *left < LIMIT * 70;
        let ahead = |fault: &Fault| matches!(fault, Fault::EraAhead(left) if is_ahead(left));
        let ahead = error.causes().iter().filter(|it| ahead(&it.cause)).count() >= 2;
        assert!(!ahead || error.to_string().contains("one after another"), "{error}");
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
