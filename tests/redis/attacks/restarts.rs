//! All servers restart without their data while a lease is held: blank is not new.

use crate::fleet::*;

/// Longer than a start takes, which waits for several budgets: else there is no quarantine.
const TTL: Duration = Duration::from_secs(8);
/// A busy machine answers within it.
const BUDGET: Duration = Duration::from_millis(500);

/// A client that has not said that the servers are new.
fn client(servers: &[RedisServer]) -> RedlockBuilder {
    service(servers).first_start(false).ttl(TTL).node_budget(BUDGET)
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
        let mut servers = servers(nodes);
        let first = client(&servers).first_start(true).build().unwrap();
        let lease = first.acquire(&resource()).await.unwrap();
        servers.iter_mut().for_each(RedisServer::restart);
        let strict = client(&servers).strict(true).wait(TTL / 10).build().unwrap();
        let found = causes(strict.acquire(&resource()).await.unwrap_err());
        assert!(found.len() > nodes / 2, "{found:?}");
        assert!(found.iter().all(|fault| *fault == Fault::Strict), "{found:?}");
        let hasty = client(&servers).build().unwrap();
        let (mut quarantined, mut next) = (false, None);
        until("it is granted", async || {
            match hasty.try_acquire(&resource()).await {
                Ok(granted) => next = Some(granted),
                Err(error) => {
                    let closed = |fault: &Fault| matches!(fault, Fault::Quarantined(_));
                    quarantined |= causes(error).iter().any(closed);
                }
            }
            next.is_some()
        })
        .await;
        assert!(quarantined, "{nodes} nodes: no quarantine");
        let next = next.unwrap();
        assert!(lease.valid_for().is_zero(), "{nodes} nodes: two leases are valid at once");
        assert!(next.token() > lease.token());
    }
}
