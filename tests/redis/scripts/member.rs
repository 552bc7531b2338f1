//! One node of a fleet, asked over a session of its own.

use fencing_protocol::{Prepared, Stamp};

pub use crate::fleet::*;
pub use support::requests::*;

pub const QUARANTINE: &str = "{fencing}:quarantine";

pub struct Member(Box<dyn Session>);

impl Member {
    pub async fn open(node: &impl Node, fleet: &Fleet) -> Member {
        Member(node.open(fleet, "me").await.unwrap())
    }

    /// The only node of its fleet.
    pub async fn alone(server: &RedisServer) -> Member {
        Member::open(&node(server), &fleet(server)).await
    }

    /// The only node of its fleet, which is admitted.
    pub async fn in_era_7(server: &RedisServer) -> Member {
        let member = Member::alone(server).await;
        member.admit(7).await;
        member
    }

    pub async fn try_ask(&self, request: Request) -> Result<Reply, Fault> {
        ask_alone(&*self.0, request).await
    }

    pub async fn ask_each(&self, requests: Vec<Request>) -> Vec<Result<Reply, Fault>> {
        self.0.call(requests.into()).await.into_vec()
    }

    pub async fn ask(&self, request: Request) -> Reply {
        self.try_ask(request).await.unwrap()
    }

    pub async fn prepare(&self) -> Prepared {
        let reply = self.ask(Request::Prepare { nonce: Nonce(0xace), from: None }).await;
        let Reply::Prepared(prepared) = reply else { panic!("{reply:?}") };
        prepared
    }

    pub async fn admit(&self, era: u64) {
        assert_eq!(self.activate(era, false, Duration::ZERO).await, Reply::Activated);
    }

    pub async fn activate(&self, era: u64, collect: bool, quarantine: Duration) -> Reply {
        let nonce = self.prepare().await.state.nonce;
        self.ask(Request::Activate { nonce, era, collect, quarantine, new: true }).await
    }

    /// Acquires what is free, and says with which count and in which memory.
    pub async fn granted(&self, owner: Owner, ttl: Duration) -> (Stamp, Nonce) {
        let reply = self.ask(lasting(acquire(&resource(), owner), ttl)).await;
        let Reply::Granted { stamp, nonce, .. } = reply else { panic!("{reply:?}") };
        (stamp, nonce)
    }

    pub async fn renew(&self, owner: Owner, stamp: Stamp, ttl: Duration) -> Reply {
        self.ask(lasting(renew(&resource(), owner, stamp), ttl)).await
    }

    pub async fn release(&self, owner: Owner) -> Reply {
        self.ask(release(&resource(), owner)).await
    }
}

#[track_caller]
pub fn assert_granted(reply: Reply) {
    assert!(matches!(reply, Reply::Granted { .. }), "{reply:?}");
}

/// A server that is admitted in era 7.
pub async fn admitted() -> (RedisServer, Member) {
    let server = RedisServer::start();
    let member = Member::in_era_7(&server).await;
    (server, member)
}

pub fn node(server: &RedisServer) -> RedisNode {
    RedisNode::new(&server.url(), "fencing").unwrap()
}

pub fn fleet(server: &RedisServer) -> Fleet {
    Fleet::new([node(server).member()]).unwrap()
}

/// How long the key lasts, in milliseconds.
pub fn left(server: &RedisServer, key: &str) -> i64 {
    server.cli(&["PTTL", key]).parse().unwrap()
}
