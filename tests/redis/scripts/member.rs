//! One node of a fleet, asked over a session of its own.

use fencing_protocol::{Prepared, Stamp};

pub use crate::fleet::*;

pub const OWNER: Owner = Owner(0xa11ce);
pub const OTHER: Owner = Owner(0xb0b);
pub const TTL: Duration = Duration::from_secs(600);

pub struct Member(Box<dyn Session>);

impl Member {
    /// Opens a session for a client of that fleet.
    pub async fn open(server: &RedisServer, fleet: &Fleet) -> Member {
        let node = RedisNode::new(&server.url(), "fencing").unwrap();
        Member(node.open(fleet).await.unwrap())
    }

    /// The only node of its fleet.
    pub async fn alone(server: &RedisServer) -> Member {
        Member::open(server, &fleet(std::slice::from_ref(server))).await
    }

    /// The only node of its fleet, which is admitted.
    pub async fn in_era_7(server: &RedisServer) -> Member {
        let member = Member::alone(server).await;
        member.admit(7).await;
        member
    }

    pub async fn try_ask(&self, request: Request) -> Result<Reply, Fault> {
        self.0.call(request).await
    }

    pub async fn ask_each(&self, requests: Vec<Request>) -> Vec<Result<Reply, Fault>> {
        self.0.call_each(requests).await
    }

    pub async fn ask(&self, request: Request) -> Reply {
        self.try_ask(request).await.unwrap()
    }

    pub async fn prepare(&self) -> Prepared {
        match self.ask(Request::Prepare { nonce: Nonce(0xace), from: None }).await {
            Reply::Prepared(prepared) => prepared,
            other => panic!("{other:?}"),
        }
    }

    /// Admits the node in this era.
    pub async fn admit(&self, era: u64) {
        assert_eq!(self.activate(era, false).await, Reply::Activated);
    }

    /// Drops the counts in this era.
    pub async fn collect(&self, era: u64) -> Reply {
        self.activate(era, true).await
    }

    async fn activate(&self, era: u64, collect: bool) -> Reply {
        let Prepared { incarnation, state, .. } = self.prepare().await;
        let (nonce, quarantine) = (state.nonce, Duration::ZERO);
        let request = Request::Activate { incarnation, nonce, era, collect, quarantine, new: true };
        self.ask(request).await
    }

    pub async fn acquire(&self, resource: Resource, owner: Owner, ttl: Duration) -> Reply {
        self.ask(acquire(resource, owner, ttl)).await
    }

    /// Acquires what is free, and says with which token and in which memory.
    pub async fn granted(&self, owner: Owner, ttl: Duration) -> (Token, Nonce) {
        match self.acquire(resource(), owner, ttl).await {
            Reply::Granted { stamp, nonce, .. } => (Stamp::token(stamp).unwrap(), nonce),
            other => panic!("{other:?}"),
        }
    }

    pub async fn renew(&self, owner: Owner, token: Token, ttl: Duration) -> Reply {
        let mode = Mode::Exclusive;
        self.ask(Request::Renew { mode, resource: resource(), owner, token, ttl }).await
    }

    pub async fn release(&self, owner: Owner) -> Reply {
        self.ask(Request::Release { resource: resource(), owner }).await
    }
}

pub fn acquire(resource: Resource, owner: Owner, ttl: Duration) -> Request {
    Request::Acquire { mode: Mode::Exclusive, resource, owner, ttl }
}

/// A request for a part of the lock.
pub fn share(owner: Owner, ttl: Duration) -> Request {
    Request::Acquire { mode: Mode::Shared, resource: resource(), owner, ttl }
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

/// The fleet of these servers.
pub fn fleet(servers: &[RedisServer]) -> Fleet {
    let node = |server: &RedisServer| RedisNode::new(&server.url(), "fencing").unwrap();
    Fleet::new(servers.iter().map(|server| node(server).name().to_owned())).unwrap()
}

/// How long the key lasts, in milliseconds.
pub fn left(server: &RedisServer, key: &str) -> i64 {
    server.cli(&["PTTL", key]).parse().unwrap()
}

pub const QUARANTINE: &str = "{fencing}:quarantine";
