//! What waits for a node goes together, up to 64 requests in one call; one that the node refuses does not spoil the
//! others.

use futures_util::future::join_all;

use crate::driver::fleet::*;
use crate::driver::wire::{Fate, Wire};

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_node_goes_together() {
    let clock = TokioClock::new();
    let nodes = ["a", "b", "c"].map(|name| Wire::new(MemoryNode::with_clock(name, clock.clone())));
    for node in &nodes {
        node.rule(|_, request| match request {
            Request::Acquire { resource, .. } if *resource == named("invoice/7") => Fate::Full,
            _ => Fate::Runs,
        });
    }
    let redlock = Redlock::builder().nodes(nodes.clone()).clock(clock).ttl(TTL).build().unwrap();
    redlock.acquire(&named("warm")).await.unwrap().release().await.unwrap();
    let most = || nodes.iter().flat_map(|node| std::mem::take(&mut node.state().calls)).max();
    most();
    let names: Vec<Resource> = (0..200).map(|number| named(&format!("invoice/{number}"))).collect();
    let attempts = join_all(names.iter().map(|name| redlock.try_acquire(name))).await;
    let (leases, refused): (Vec<_>, Vec<_>) = attempts.into_iter().partition(Result::is_ok);
    assert_eq!((leases.len(), refused.len(), most()), (199, 1, Some(64)));
    // So do renewals.
    sleep(TTL * 5).await;
    assert_eq!(most(), Some(64));
    assert!(leases.iter().flatten().all(|lease| !lease.valid_for().is_zero()));
    drop(leases);
    redlock.settle().await;
    assert_eq!(most(), Some(64));
}
