//! Renewals that are due together go as one request, and one of them that a node refuses does not spoil the others.

use crate::driver::fleet::*;
use crate::driver::wire::{Fate, Wire};

/// A node without memory left for one of the locks refuses each request that renews several.
#[tokio::test(start_paused = true)]
async fn one_that_a_node_refuses_does_not_spoil_the_others() {
    let refused = Arc::<AtomicUsize>::default();
    let clock = TokioClock::new();
    let node = |called: &str| {
        let wire = Wire::new(MemoryNode::with_clock(called, clock.clone()));
        let count = Arc::clone(&refused);
        wire.rule(move |_, request| match request {
            Request::Several(parts) if name(&parts[0]) == "renew" => {
                count.fetch_add(1, Ordering::SeqCst);
                Fate::OutOfMemory
            }
            _ => Fate::Runs,
        });
        wire
    };
    let nodes = ["a", "b", "c"].map(node);
    let redlock = Redlock::builder().nodes(nodes).clock(clock.clone()).ttl(TTL).build().unwrap();
    let mut leases = Vec::new();
    // Enough that those that are tried again come together as well.
    for number in 0..2000 {
        leases.push(redlock.acquire(&named(&format!("invoice/{number}"))).await.unwrap());
    }
    sleep(TTL * 5).await;
    // They were refused together at first, by each of the nodes.
    assert!(refused.load(Ordering::SeqCst) >= 3);
    assert!(leases.iter().all(|lease| !lease.valid_for().is_zero()));
}
