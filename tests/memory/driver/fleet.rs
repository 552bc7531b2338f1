//! Memory nodes with faults, the clients of them, and what most of their tests use.

pub use std::sync::Arc;
pub use std::sync::atomic::{AtomicUsize, Ordering};
pub use std::time::Duration;

pub use fencing::lock::redlock::{Group, MemoryNode, Node, RedlockBuilder, Session};
pub use fencing::lock::{AcquireError, Loss, Released};
pub use fencing::testing::{Faults, FaultyNode, seed};
pub use fencing::{Redlock, Resource};
pub use fencing_protocol::{Fault, Mode, Reply, Request};
pub use futures_util::FutureExt;
pub use futures_util::future::{BoxFuture, try_join_all};
pub use support::clock::TokioClock;
pub use support::lease::{assert_held, named, resource};
pub use support::requests::{ALICE, acquire, ask_alone, lasting, release};
pub use support::waiting::polled;
pub use tokio::task::JoinHandle;
pub use tokio::time::{Instant, sleep, timeout};

pub const TTL: Duration = Duration::from_secs(10);
pub const BUDGET: Duration = Duration::from_millis(50);
/// What is taken off each lease here.
pub const DRIFT: Duration = Duration::from_millis(400);
pub const RETRY: Duration = Duration::from_millis(100);
/// The longest pause of one who is notified, give or take a half.
pub const MAX_DELAY: Duration = Duration::from_millis(1500);

pub struct Fleet {
    pub clock: TokioClock,
    pub clocks: Vec<TokioClock>,
    pub nodes: Vec<MemoryNode>,
    pub faulty: Vec<FaultyNode<MemoryNode>>,
    pub faults: Vec<Faults>,
}

impl Fleet {
    /// Three nodes that are admitted and grant.
    pub async fn started() -> Fleet {
        Fleet::of(3).await
    }

    pub async fn of(count: usize) -> Fleet {
        // The pauses have a random part: the same each time.
        seed(Some(1));
        let clock = TokioClock::new();
        let clocks: Vec<TokioClock> = (0..count).map(|_| clock.apart()).collect();
        let names = members(count);
        let node = |(name, clock): (&str, &TokioClock)| MemoryNode::with_clock(name, clock.clone());
        let nodes: Vec<MemoryNode> = names.members().zip(&clocks).map(node).collect();
        let faulty: Vec<_> = nodes.iter().cloned().map(FaultyNode::new).collect();
        let faults = faulty.iter().map(FaultyNode::faults).collect();
        let fleet = Fleet { clock, clocks, nodes, faulty, faults };
        drop(fleet.service().build().unwrap().acquire(&named("warm")).await.unwrap());
        // Whatever that lock left on the nodes is over.
        sleep(TTL * 2).await;
        fleet
    }

    pub async fn with_client(count: usize) -> (Fleet, Redlock) {
        let fleet = Fleet::of(count).await;
        let redlock = fleet.connected().await;
        (fleet, redlock)
    }

    pub fn service(&self) -> RedlockBuilder {
        self.settings().nodes(self.faulty.iter().cloned())
    }

    /// A service that reaches the same nodes past the faults.
    pub fn past_the_faults(&self) -> RedlockBuilder {
        self.settings().nodes(self.nodes.iter().cloned())
    }

    pub async fn connected(&self) -> Redlock {
        self.connected_to(self.nodes.len()).await
    }

    /// The same where others have forgotten.
    pub async fn connected_to(&self, granting: usize) -> Redlock {
        let redlock = self.service().build().unwrap();
        assert_eq!(redlock.health().await.granting, granting);
        redlock
    }

    /// A service as another process has it: its callers wait for long.
    pub fn process(&self) -> Redlock {
        self.service().retry_delay(RETRY).wait(TTL * 20).build().unwrap()
    }

    pub fn settings(&self) -> RedlockBuilder {
        Redlock::builder().clock(self.clock.clone()).ttl(TTL).node_budget(BUDGET).drift(DRIFT)
    }

    /// What every node has run for `resource()`, by name.
    #[track_caller]
    pub fn assert_ran(&self, expected: &[&str]) {
        self.faults.iter().for_each(|faults| assert_eq!(ran(faults), expected));
    }

    /// How often the first node was asked for `resource()`.
    pub fn acquires(&self) -> usize {
        ran(&self.faults[0]).iter().filter(|name| **name == "acquire").count()
    }

    /// Which nodes hold a lock of `resource()`, asked past the faults.
    pub async fn locked(&self) -> Vec<bool> {
        let mut locked = Vec::new();
        for node in &self.nodes {
            let session = node.open(&members(self.nodes.len()), "me").await.unwrap();
            let reply = ask_alone(&*session, acquire(&resource(), ALICE)).await.unwrap();
            ask_alone(&*session, release(&resource(), ALICE)).await.unwrap();
            locked.push(match reply {
                Reply::Granted { .. } => false,
                Reply::Held { .. } => true,
                other => panic!("{other:?}"),
            });
        }
        locked
    }
}

pub fn members(count: usize) -> fencing_protocol::Fleet {
    fencing_protocol::Fleet::new((0..count).map(|number| format!("node-{number}"))).unwrap()
}

/// Waits for `resource()`, keeps the lease for `hold`, and returns when it had it.
pub fn waits(redlock: &Redlock, hold: Duration) -> JoinHandle<Instant> {
    let redlock = redlock.clone();
    tokio::spawn(async move {
        let lease = redlock.acquire(&resource()).await.unwrap();
        let at = Instant::now();
        sleep(hold).await;
        lease.release().await.unwrap();
        at
    })
}

/// Polls a future once, which has to wait.
#[track_caller]
pub fn begun<F: Future>(future: F) -> std::pin::Pin<Box<F>> {
    let mut future = Box::pin(future);
    assert!((&mut future).now_or_never().is_none());
    future
}

/// Lets everything run that can without time passing.
pub async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// What a request is called, and the resource that it is about.
pub fn about(request: &Request) -> Option<(&'static str, &Resource)> {
    match request {
        Request::Acquire { resource, .. } => Some(("acquire", resource)),
        Request::Publish { resource, .. } => Some(("publish", resource)),
        Request::Renew { resource, .. } => Some(("renew", resource)),
        Request::Release { resource, .. } => Some(("release", resource)),
        Request::Retire { resource, .. } => Some(("retire", resource)),
        Request::Shorten { resource, .. } => Some(("shorten", resource)),
        _ => None,
    }
}

/// What a node has run for `resource()`, by name.
pub fn ran(faults: &Faults) -> Vec<&'static str> {
    let log = faults.log();
    let ran = log.iter().filter_map(|(request, _)| about(request));
    ran.filter(|(_, of)| **of == resource()).map(|(name, _)| name).collect()
}
