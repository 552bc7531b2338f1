//! The first requests of a lock service come at one time, from several threads.

use tokio::sync::Barrier;

use crate::driver::fleet::*;

async fn first_use(round: usize) {
    let nodes = (0..5).map(|number| MemoryNode::new(format!("node {number}")));
    let redlock = Redlock::builder()
        .nodes(nodes)
        .ttl(Duration::from_secs(2))
        .node_budget(Duration::from_secs(1))
        .wait(Duration::from_secs(60))
        .build()
        .unwrap();
    let start = Arc::new(Barrier::new(8));
    let first = (0..8).map(|number| {
        let (redlock, start) = (redlock.clone(), Arc::clone(&start));
        tokio::spawn(async move {
            let resource = named(&format!("files/{number}"));
            start.wait().await;
            // A fleet that starts may refuse.
            drop(redlock.try_acquire(&resource).await);
        })
    });
    for first in first.collect::<Vec<_>>() {
        first.await.unwrap();
    }
    let lease = redlock.acquire(&resource()).await;
    drop(lease.unwrap_or_else(|error| panic!("round {round}: {error}")));
    // The last node's quarantine ends a moment after those of a majority.
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let health = redlock.health().await;
        if health.causes.is_empty() {
            break;
        }
        assert!(Instant::now() < end, "round {round}: {:?}", health.causes);
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_node_serves_after_it() {
    // Each waits for its quarantine: all at one time.
    let rounds: Vec<_> = (0..10).map(|round| tokio::spawn(first_use(round))).collect();
    for round in rounds {
        round.await.unwrap();
    }
}
