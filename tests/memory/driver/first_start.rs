//! A client that has said that no lock can be held, and the nodes that restart without their data later.

use crate::driver::fleet::*;

#[tokio::test(start_paused = true)]
async fn a_first_start_is_vouched_for_once() {
    for count in [1, 3] {
        let clock = TokioClock::new();
        let node = |number: usize| MemoryNode::with_clock(format!("{number}"), clock.clone());
        let nodes: Vec<MemoryNode> = (0..count).map(node).collect();
        let service = |first: bool| {
            let builder = Redlock::builder().nodes(nodes.clone()).clock(clock.clone());
            builder.first_start(first).wait(Duration::from_secs(60)).build().unwrap()
        };
        let (first, other) = (service(true), service(false));
        let resource = resource();
        let lease = first.acquire(&resource).await.unwrap();
        nodes.iter().for_each(MemoryNode::restart);
        // The client that has the lease sees the blank nodes first.
        assert!(first.try_acquire(&named("other")).await.is_err());
        let next = other.acquire(&resource).await.unwrap();
        assert!(lease.valid_for().is_zero(), "{count} nodes: two leases are valid at once");
        assert!(next.token() > lease.token());
    }
}
