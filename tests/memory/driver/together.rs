//! What waits for a node goes together, up to 64 requests in one call; one that the node refuses does not spoil the
//! others.

use std::sync::Mutex;

use fencing_protocol::Fleet as Members;
use futures_util::future::{join_all, ready};

use super::fleet::*;

/// A node that notes how many requests each call brings, and has no memory left for one of the locks.
struct Full {
    node: MemoryNode,
    calls: Arc<Mutex<Vec<usize>>>,
}

struct FullSession {
    session: Box<dyn Session>,
    calls: Arc<Mutex<Vec<usize>>>,
}

impl Node for Full {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn open(&self, fleet: &Members) -> BoxFuture<'static, Result<Box<dyn Session>, Fault>> {
        let (opening, calls) = (self.node.open(fleet), Arc::clone(&self.calls));
        async move {
            let session: Box<dyn Session> =
                Box::new(FullSession { session: opening.await?, calls });
            Ok(session)
        }
        .boxed()
    }
}

impl Session for FullSession {
    fn call(&self, request: Request) -> BoxFuture<'static, Result<Reply, Fault>> {
        match &request {
            Request::Acquire { resource, .. } if *resource == named("invoice/7") => {
                ready(Err(Fault::OutOfMemory)).boxed()
            }
            _ => self.session.call(request),
        }
    }

    fn call_each(&self, requests: Vec<Request>) -> BoxFuture<'static, Vec<Result<Reply, Fault>>> {
        self.calls.lock().unwrap().push(requests.len());
        join_all(requests.into_iter().map(|request| self.call(request))).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_node_goes_together() {
    let (calls, clock) = (Arc::<Mutex<Vec<usize>>>::default(), TokioClock::new());
    let node = |name: &str| {
        let node = MemoryNode::with_clock(name, clock.clone());
        Full { node, calls: Arc::clone(&calls) }
    };
    let builder = Redlock::builder().nodes(["a", "b", "c"].map(node)).clock(clock.clone());
    let redlock = builder.ttl(TTL).build().unwrap();
    redlock.acquire(&named("warm")).await.unwrap().release().await.unwrap();
    calls.lock().unwrap().clear();
    let names: Vec<Resource> = (0..200).map(|number| named(&format!("invoice/{number}"))).collect();
    let (leases, refused): (Vec<_>, Vec<_>) =
        join_all(names.iter().map(|name| redlock.try_acquire(name)))
            .await
            .into_iter()
            .partition(Result::is_ok);
    assert_eq!((leases.len(), refused.len()), (199, 1));
    assert_eq!(std::mem::take(&mut *calls.lock().unwrap()).into_iter().max(), Some(64));
    // So do renewals.
    sleep(TTL * 5).await;
    assert_eq!(std::mem::take(&mut *calls.lock().unwrap()).into_iter().max(), Some(64));
    assert!(leases.iter().flatten().all(|lease| !lease.valid_for().is_zero()));
    drop(leases);
    redlock.settle().await;
    assert_eq!(calls.lock().unwrap().iter().max(), Some(&64));
}
