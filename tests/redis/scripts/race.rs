//! Many clients that see at one time that a node is crowded.

use std::time::{Duration, Instant};

use fencing::{Redlock, Resource};
use futures_util::future::join_all;

use crate::scripts::counts::{field, fill};
use crate::scripts::member::{MEMORY, Member, QUARANTINE, fleet};
use support::redis::RedisServer;

const CLIENTS: usize = 20;

#[tokio::test]
async fn twenty_clients_collect_once() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let fleet = fleet(&servers);
    for server in &servers {
        Member::open(server, &fleet).await.admit(7).await;
    }
    let client = |_| {
        let nodes = servers.iter().map(RedisServer::url);
        // Time enough for twenty clients on a busy machine.
        let budget = Duration::from_secs(2);
        Redlock::builder().redis(nodes).node_budget(budget).build().unwrap()
    };
    let clients: Vec<Redlock> = (0..CLIENTS).map(client).collect();
    for health in join_all(clients.iter().map(Redlock::health)).await {
        assert_eq!(health.granting, 3, "{health:?}");
    }
    fill(&servers[0], 100_000);
    let names: Vec<Resource> =
        (0..CLIENTS).map(|number| Resource::new(format!("race/{number}")).unwrap()).collect();
    let acquired = join_all(clients.iter().zip(&names).map(|(client, name)| client.acquire(name)));
    let leases: Vec<_> = acquired.await.into_iter().map(Result::unwrap).collect();
    let end = Instant::now() + Duration::from_secs(60);
    let era = loop {
        match field(&servers[0], "era") {
            7 => assert!(Instant::now() < end, "nobody has collected"),
            era => break era,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    // A client that asked for an era behind others may have overtaken them: it is not always the next.
    assert!(era <= 7 + CLIENTS as u64, "{era}");
    // Clients that came later are done as well.
    join_all(clients.iter().map(Redlock::settle)).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    join_all(clients.iter().map(Redlock::settle)).await;
    assert_eq!(field(&servers[0], "era"), era, "it was collected again");
    let fields: u64 = servers[0].cli(&["HLEN", MEMORY]).parse().unwrap();
    assert!(fields < 100, "{fields}");
    assert_eq!(servers[0].cli(&["EXISTS", QUARANTINE]), "0", "it grants on");
    // Leases from before are kept, and new ones have larger tokens.
    let before = leases[0].token();
    for lease in leases {
        lease.release().await.unwrap();
    }
    let next = clients[0].acquire(&names[0]).await.unwrap();
    assert!(next.token() > before, "{} after {before}", next.token());
    // Each node counts in that era by now, or in the one before.
    assert!(servers.iter().all(|server| field(server, "era") <= era));
}
