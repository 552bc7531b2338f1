use std::time::Duration;

use fencing_protocol::{ClientId, Fault, Fleet, Incarnation, Reply, Request, Resource};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use smallvec::smallvec;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::Faults;
use crate::lock::redlock::{Group, Node, Session};
use crate::lock::{Notice, ReleaseListener};

/// A node behind a network and a machine whose faults you switch: see [`Faults`].
///
/// Its memory and its clock are those of the node that it wraps. A [`MemoryNode`](crate::lock::redlock::MemoryNode)
/// forgets everything by `flush`, begins another `run_id` by `restart`, loses one lock by `expire`, and its clock jumps
/// if you gave it one that does.
///
/// ```
/// use fencing::lock::redlock::MemoryNode;
/// use fencing::testing::FaultyNode;
/// use fencing::{Redlock, Resource};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let nodes = ["a", "b", "c"].map(MemoryNode::new).map(FaultyNode::new);
/// let faults = nodes.each_ref().map(FaultyNode::faults);
/// let redlock = Redlock::builder().nodes(nodes).build()?;
/// let resource = Resource::new("invoice/42")?;
/// redlock.acquire(&resource).await?.release().await?;
/// faults[0].hang();
/// redlock.acquire(&resource).await?; // The other two are a majority.
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FaultyNode<N> {
    node: N,
    faults: Faults,
}

impl<N: Node> FaultyNode<N> {
    /// Makes a node without faults so far.
    pub fn new(node: N) -> FaultyNode<N> {
        FaultyNode { node, faults: Faults::default() }
    }

    /// Returns the handle that switches its faults.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }
}

impl<N: Node> Node for FaultyNode<N> {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn member(&self) -> &str {
        self.node.member()
    }

    fn open(&self, fleet: &Fleet, holder: &str) -> BoxFuture<'static, Result<Box<dyn Session>, Fault>> {
        let (opening, faults) = (self.node.open(fleet, holder), self.faults.clone());
        async move {
            if faults.now().refusing {
                return Err(Fault::Unreachable("refused by a test".into()));
            }
            faults.awake().await;
            let (calls, waiting) = mpsc::unbounded_channel();
            let breaks = faults.now().breaks;
            let inner = opening.await?;
            let server = inner.server().cloned();
            tokio::spawn(serve(inner, faults.clone(), waiting));
            let session: Box<dyn Session> = Box::new(FaultySession { calls, faults, breaks, server });
            Ok(session)
        }
        .boxed()
    }

    fn listen(&self, client: ClientId) -> BoxFuture<'static, Result<Box<dyn ReleaseListener>, Fault>> {
        let (opening, faults) = (self.node.listen(client), self.faults.clone());
        async move {
            if faults.now().refusing {
                return Err(Fault::Unreachable("refused by a test".into()));
            }
            faults.awake().await;
            let breaks = faults.now().breaks;
            let listener: Box<dyn ReleaseListener> =
                Box::new(FaultyListener { listener: opening.await?, faults, breaks, last: None });
            Ok(listener)
        }
        .boxed()
    }
}

/// Notifications of the node may be lost or forged.
struct FaultyListener {
    listener: Box<dyn ReleaseListener>,
    faults: Faults,
    breaks: u64,
    /// The last note.
    last: Option<(Resource, u64)>,
}

impl ReleaseListener for FaultyListener {
    fn wait(&mut self, resource: &Resource, registration: u64, waited: Duration) {
        self.last = Some((resource.clone(), registration));
        self.listener.wait(resource, registration, waited);
    }

    fn leave(&mut self, resource: &Resource, registration: u64) {
        self.listener.leave(resource, registration);
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Notice, Fault>> {
        async {
            loop {
                let notice = tokio::select! {
                    biased;
                    () = self.faults.broken(self.breaks) => {
                        return Err(Fault::Disconnected("broken by a test".into()));
                    }
                    () = self.faults.forging(), if self.last.is_some() => {
                        sleep(Duration::from_millis(1)).await;
                        let Some((resource, registration)) = &self.last else { continue };
                        return Ok(Notice::Released { resource: resource.clone(), registration: *registration });
                    }
                    notice = self.listener.next() => notice?,
                };
                if !self.faults.now().mute || !matches!(notice, Notice::Released { .. }) {
                    return Ok(notice);
                }
            }
        }
        .boxed()
    }
}

struct UnansweredCall {
    requests: Group<Request>,
    replies: oneshot::Sender<Group<Result<Reply, Fault>>>,
}

struct FaultySession {
    calls: mpsc::UnboundedSender<UnansweredCall>,
    faults: Faults,
    breaks: u64,
    server: Option<Incarnation>,
}

impl Session for FaultySession {
    fn check(&self) -> BoxFuture<'static, Result<(), Fault>> {
        let broken = self.faults.now().breaks > self.breaks;
        let broken = broken.then(|| Fault::Disconnected("broken by a test".into()));
        std::future::ready(broken.map_or(Ok(()), Err)).boxed()
    }

    fn server(&self) -> Option<&Incarnation> {
        self.server.as_ref()
    }

    fn call(&self, requests: Group<Request>) -> BoxFuture<'static, Group<Result<Reply, Fault>>> {
        let (calls, faults, breaks) = (self.calls.clone(), self.faults.clone(), self.breaks);
        async move {
            let broken = smallvec![Err(Fault::Disconnected("broken by a test".into())); requests.len()];
            if faults.now().breaks > breaks {
                return broken;
            }
            let (replies, answers) = oneshot::channel();
            let _ = calls.send(UnansweredCall { requests, replies });
            tokio::select! {
                biased;
                () = faults.broken(breaks) => broken,
                answers = answers => answers.unwrap_or(broken),
            }
        }
        .boxed()
    }
}

/// Runs the requests of one session in their order, whether or not their callers still wait.
async fn serve(session: Box<dyn Session>, faults: Faults, mut waiting: mpsc::UnboundedReceiver<UnansweredCall>) {
    // Callers whose replies are lost keep waiting.
    let mut lost = Vec::new();
    while let Some(UnansweredCall { requests, replies }) = waiting.recv().await {
        faults.awake().await;
        let mut answers = session.call(requests.clone()).await;
        faults.record(&requests, &answers);
        if faults.now().repeating {
            answers = session.call(requests.clone()).await;
            faults.record(&requests, &answers);
        }
        if faults.now().losing {
            lost.push(replies);
            continue;
        }
        let delay = faults.now().delay;
        if delay.is_zero() {
            let _ = replies.send(answers);
        } else {
            // As on a network: answers in flight do not delay one another.
            tokio::spawn(async move {
                sleep(delay).await;
                let _ = replies.send(answers);
            });
        }
    }
}
