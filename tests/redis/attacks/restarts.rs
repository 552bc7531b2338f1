//! All servers restart without their data while a lease is held: blank is not new.

use std::time::Duration;

use fencing::lock::AcquireError;
use fencing::lock::redlock::RedlockBuilder;
use fencing::{Redlock, Resource};
use fencing_protocol::Fault;

use support::redis::RedisServer;

const TTL: Duration = Duration::from_secs(4);
/// A busy machine answers within it.
const BUDGET: Duration = Duration::from_millis(100);

fn resource() -> Resource {
    Resource::new("invoice/42").unwrap()
}

fn service(servers: &[RedisServer]) -> RedlockBuilder {
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    Redlock::builder().redis(urls).ttl(TTL).node_budget(BUDGET)
}

fn causes(error: AcquireError) -> Vec<Fault> {
    match error {
        AcquireError::NoQuorum { causes, .. } => causes.into_iter().map(|c| c.cause).collect(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn no_lease_is_granted_beside_one_that_the_servers_have_forgotten() {
    for nodes in [1, 3, 5] {
        let mut servers: Vec<RedisServer> = (0..nodes).map(|_| RedisServer::start()).collect();
        let first = service(&servers).first_start(true).build().unwrap();
        let lease = first.acquire(&resource()).await.unwrap();
        servers.iter_mut().for_each(RedisServer::restart);
        let strict = service(&servers).strict(true).wait(TTL / 10).build().unwrap();
        let found = causes(strict.acquire(&resource()).await.unwrap_err());
        assert!(found.len() > nodes / 2, "{found:?}");
        assert!(found.iter().all(|fault| *fault == Fault::Strict), "{found:?}");
        let hasty = service(&servers).build().unwrap();
        loop {
            let found = causes(hasty.try_acquire(&resource()).await.unwrap_err());
            if found.iter().any(|fault| matches!(fault, Fault::Quarantined(_))) {
                break;
            }
        }
        let next = hasty.acquire(&resource()).await.unwrap();
        assert!(lease.valid_for().is_zero(), "{nodes} nodes: two leases are valid at once");
        assert!(next.token() > lease.token());
    }
}
