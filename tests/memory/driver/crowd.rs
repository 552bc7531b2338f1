//! Counts that pile up on one node: clients that see it at about the same time.

use fencing_protocol::CROWDED;

use crate::driver::fleet::*;

const CLIENTS: u64 = 20;
/// How long each answer takes, and how long after one client the next one comes.
const DELAY: Duration = Duration::from_millis(10);

/// Lets the node count enough resources to be crowded.
async fn crowd(node: &MemoryNode) {
    let session = node.open(&members(3), "me").await.unwrap();
    for number in 0..CROWDED {
        let acquire = acquire(&named(&format!("r{number}")), ALICE);
        let reply = ask_alone(&*session, lasting(acquire, Duration::from_millis(1))).await;
        assert!(matches!(reply, Ok(Reply::Granted { .. })), "{reply:?}");
    }
}

/// A client with a network of its own.
async fn client(fleet: &Fleet) -> Redlock {
    let nodes: Vec<_> = fleet.nodes.iter().cloned().map(FaultyNode::new).collect();
    nodes.iter().for_each(|node| node.faults().delay_replies(DELAY));
    let redlock = fleet.settings().nodes(nodes).build().unwrap();
    assert_eq!(redlock.health().await.granting, 3);
    redlock
}

/// Some look whether the node is crowded before the first has collected, and ask the others for
/// an era after the first has reserved its own: they come with a larger one.
#[tokio::test(start_paused = true)]
async fn a_node_is_collected_once() {
    let fleet = Fleet::started().await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(client(&fleet).await);
    }
    let before = clients[0].health().await.nodes[0].era;
    crowd(&fleet.nodes[0]).await;
    assert!(clients[0].health().await.nodes[0].crowded);
    let mut attempts = Vec::new();
    for (client, number) in clients.iter().cloned().zip(0_u64..) {
        let resource = named(&format!("race/{number}"));
        attempts.push(tokio::spawn(async move { client.acquire(&resource).await }));
        sleep(DELAY).await;
    }
    for attempt in attempts {
        attempt.await.unwrap().unwrap().release().await.unwrap();
    }
    sleep(Duration::from_secs(2)).await;
    let health = clients[0].health().await;
    assert_eq!(health.granting, 3, "it grants on: {health:?}");
    assert_eq!(health.nodes[0].era, before + 1);
    assert!(health.nodes.iter().all(|node| node.era <= before + 1), "{health:?}");
    assert!(health.nodes[0].counts < 100 && !health.nodes[0].crowded, "{health:?}");
}
