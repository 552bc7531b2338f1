//! Five memory nodes with faults, and what they show.

use std::time::Duration;

use fencing::lock::redlock::{MemoryNode, Node, RedlockBuilder};
use fencing::testing::{Faults, FaultyNode};
use fencing::{Redlock, Resource};
use fencing_protocol::{Mode, Owner, Reply, Request};

pub use crate::driver::fleet::{ran, resource, settle};
use support::clock::TokioClock;

pub const TTL: Duration = Duration::from_secs(10);
pub const BUDGET: Duration = Duration::from_millis(50);

pub struct Fleet {
    pub clock: TokioClock,
    /// The clock of each node.
    pub clocks: Vec<TokioClock>,
    pub nodes: Vec<MemoryNode>,
    pub faulty: Vec<FaultyNode<MemoryNode>>,
    pub faults: Vec<Faults>,
}

impl Fleet {
    /// Five nodes that are admitted and grant.
    pub async fn started() -> Fleet {
        let clock = TokioClock::new();
        let clocks: Vec<TokioClock> = (0..5).map(|_| clock.apart()).collect();
        let node = |(number, clock): (usize, &TokioClock)| {
            MemoryNode::with_clock(format!("node-{number}"), clock.clone())
        };
        let nodes: Vec<MemoryNode> = clocks.iter().enumerate().map(node).collect();
        let faulty: Vec<_> = nodes.iter().cloned().map(FaultyNode::new).collect();
        let faults = faulty.iter().map(FaultyNode::faults).collect();
        let fleet = Fleet { clock, clocks, nodes, faulty, faults };
        let redlock = fleet.service().build().unwrap();
        redlock.acquire(&Resource::new("warm").unwrap()).await.unwrap().release().await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        fleet
    }

    pub fn service(&self) -> RedlockBuilder {
        let nodes = self.faulty.iter().cloned();
        Redlock::builder().nodes(nodes).clock(self.clock.clone()).ttl(TTL).node_budget(BUDGET)
    }

    /// A service whose sessions are open.
    pub async fn connected(&self) -> Redlock {
        let redlock = self.service().build().unwrap();
        assert_eq!(redlock.health().await.granting, 5);
        redlock
    }

    /// How many nodes hold a lock of `resource`, asked past the faults.
    pub async fn locked(&self) -> Vec<bool> {
        let mut locked = Vec::new();
        for node in &self.nodes {
            let session = node.open(&members()).await.unwrap();
            let (owner, ttl) = (Owner(0xa5c), Duration::from_secs(1));
            let acquire =
                Request::Acquire { mode: Mode::Exclusive, resource: resource(), owner, ttl };
            let reply = session.call(acquire).await.unwrap();
            let release = Request::Release { resource: resource(), owner };
            session.call(release).await.unwrap();
            locked.push(match reply {
                Reply::Granted { .. } => false,
                Reply::Held { .. } => true,
                other => panic!("{other:?}"),
            });
        }
        locked
    }
}

/// The fleet of the five nodes.
pub fn members() -> fencing_protocol::Fleet {
    fencing_protocol::Fleet::new((0..5).map(|number| format!("node-{number}"))).unwrap()
}
