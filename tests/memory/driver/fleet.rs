//! Three memory nodes with faults, and the clients of them.

use std::time::Duration;

use fencing::lock::redlock::{MemoryNode, RedlockBuilder};
use fencing::testing::{Faults, FaultyNode};
use fencing::{Redlock, Resource};
use fencing_protocol::Request;

use support::clock::TokioClock;

pub const TTL: Duration = Duration::from_secs(10);
pub const BUDGET: Duration = Duration::from_millis(50);
/// What is taken off each lease here.
pub const DRIFT: Duration = Duration::from_millis(400);

pub struct Fleet {
    pub clock: TokioClock,
    pub nodes: Vec<MemoryNode>,
    pub faulty: Vec<FaultyNode<MemoryNode>>,
    pub faults: Vec<Faults>,
}

impl Fleet {
    /// Three nodes that are admitted and grant.
    pub async fn started() -> Fleet {
        let clock = TokioClock::new();
        let node = |number| MemoryNode::with_clock(format!("node-{number}"), clock.clone());
        let nodes: Vec<MemoryNode> = (0..3).map(node).collect();
        let faulty: Vec<_> = nodes.iter().cloned().map(FaultyNode::new).collect();
        let faults = faulty.iter().map(FaultyNode::faults).collect();
        let fleet = Fleet { clock, nodes, faulty, faults };
        let redlock = fleet.service().build().unwrap();
        redlock.acquire(&Resource::new("warm").unwrap()).await.unwrap().release().await.unwrap();
        // Whatever that lock left on the nodes is over.
        tokio::time::sleep(TTL * 2).await;
        fleet
    }

    pub fn service(&self) -> RedlockBuilder {
        self.settings().nodes(self.faulty.iter().cloned())
    }

    /// A service that reaches the same nodes past the faults.
    pub fn past_the_faults(&self) -> RedlockBuilder {
        self.settings().nodes(self.nodes.iter().cloned())
    }

    /// A service whose sessions are open.
    pub async fn connected(&self) -> Redlock {
        let redlock = self.service().build().unwrap();
        assert_eq!(redlock.health().await.granting, 3);
        redlock
    }

    /// The same where one node has forgotten.
    pub async fn connected_to_two(&self) -> Redlock {
        let redlock = self.service().build().unwrap();
        assert_eq!(redlock.health().await.granting, 2);
        redlock
    }

    /// A service without nodes yet.
    pub fn settings(&self) -> RedlockBuilder {
        Redlock::builder().clock(self.clock.clone()).ttl(TTL).node_budget(BUDGET).drift(DRIFT)
    }
}

pub fn resource() -> Resource {
    Resource::new("invoice/42").unwrap()
}

/// Lets everything run that can without time passing.
pub async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// What a node has run for `resource()`, by name.
pub fn ran(faults: &Faults) -> Vec<&'static str> {
    let name = |request: &Request| match request {
        Request::Acquire { resource: named, .. } if *named == resource() => Some("acquire"),
        Request::Publish { resource: named, .. } if *named == resource() => Some("publish"),
        Request::Renew { resource: named, .. } if *named == resource() => Some("renew"),
        Request::Release { resource: named, .. } if *named == resource() => Some("release"),
        Request::Shorten { resource: named, .. } if *named == resource() => Some("shorten"),
        _ => None,
    };
    faults.log().iter().filter_map(|(request, _)| name(request)).collect()
}
