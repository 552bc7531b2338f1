//! A client with a list that was left, and a node of the new list that has forgotten everything.

use crate::driver::fleet::*;

/// The client of the old list [a] is the first that sees the blank node. The fleet [a, b, c] brings it back before
/// it is started for the old list.
#[tokio::test(start_paused = true)]
async fn a_stale_client_does_not_start_a_node_that_its_fleet_brings_back() {
    let clock = TokioClock::new();
    let nodes = ["a", "b", "c"].map(|name| MemoryNode::with_clock(name, clock.clone()));
    let service = |nodes: &[MemoryNode]| {
        let builder = Redlock::builder().nodes(nodes.to_vec()).clock(clock.clone());
        builder.ttl(Duration::from_secs(1)).build().unwrap()
    };
    let (old, new) = (service(&nodes[..1]), service(&nodes));
    let resource = resource();
    old.acquire(&resource).await.unwrap().release().await.unwrap();
    old.operator().move_to(&new).await.unwrap();
    new.acquire(&resource).await.unwrap().release().await.unwrap();

    nodes[0].restart();
    assert!(old.try_acquire(&resource).await.is_err());
    let _ = new.try_acquire(&resource).await;
    sleep(Duration::from_secs(10)).await;
    assert!(old.try_acquire(&resource).await.is_err(), "the old list is in use again");
    assert_eq!(new.health().await.granting, 3);
}
