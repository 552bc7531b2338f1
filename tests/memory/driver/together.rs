//! Renewals that are due together go as one request, and one of them that a node refuses does not spoil the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fencing::lock::redlock::{MemoryNode, Node, Session};
use fencing::{Redlock, Resource};
use fencing_protocol::{Fault, Fleet, Reply, Request};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use support::clock::TokioClock;

const TTL: Duration = Duration::from_secs(30);

/// A node without memory left for one of the locks: it refuses each request that renews several.
struct Full {
    node: MemoryNode,
    refused: Arc<AtomicUsize>,
}

struct FullSession {
    session: Box<dyn Session>,
    refused: Arc<AtomicUsize>,
}

impl Node for Full {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn open(&self, fleet: &Fleet) -> BoxFuture<'static, Result<Box<dyn Session>, Fault>> {
        let (opening, refused) = (self.node.open(fleet), Arc::clone(&self.refused));
        async move {
            let session: Box<dyn Session> =
                Box::new(FullSession { session: opening.await?, refused });
            Ok(session)
        }
        .boxed()
    }
}

impl Session for FullSession {
    fn call(&self, request: Request) -> BoxFuture<'static, Result<Reply, Fault>> {
        match &request {
            Request::Several(parts)
                if parts.iter().any(|part| matches!(part, Request::Renew { .. })) =>
            {
                self.refused.fetch_add(1, Ordering::SeqCst);
                ready(Err(Fault::OutOfMemory)).boxed()
            }
            _ => self.session.call(request),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_a_node_refuses_does_not_spoil_the_others() {
    let refused = Arc::<AtomicUsize>::default();
    let clock = TokioClock::new();
    let node = |name: &str| {
        let node = MemoryNode::with_clock(name, clock.clone());
        Full { node, refused: Arc::clone(&refused) }
    };
    let nodes = ["a", "b", "c"].map(node);
    let redlock = Redlock::builder().nodes(nodes).clock(clock.clone()).ttl(TTL).build().unwrap();
    let mut leases = Vec::new();
    // Enough that those that are tried again come together as well.
    for number in 0..2000 {
        let resource = Resource::new(format!("invoice/{number}")).unwrap();
        leases.push(redlock.acquire(&resource).await.unwrap());
    }
    tokio::time::sleep(TTL * 5).await;
    // They were refused together at first, by each of the nodes.
    assert!(refused.load(Ordering::SeqCst) >= 3);
    assert!(leases.iter().all(|lease| !lease.valid_for().is_zero()));
}
