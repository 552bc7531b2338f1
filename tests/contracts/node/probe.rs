use std::time::Duration;

use crate::{ANSWER_WITHIN, answered};

use fencing_protocol::{
    Fleet, Incarnation, Mode, NodeState, Nonce, Owner, Prepared, Reply, Request, Resource, Stamp,
};
use tokio::time::{Instant, sleep};

use fencing::lock::redlock::{Node, Session};

pub const ALICE: Owner = Owner(0xa11ce);
pub const BOB: Owner = Owner(0xb0b);
/// A TTL that is longer than any suite takes.
pub const TTL: Duration = Duration::from_secs(600);

/// Sessions with a node, and what the suite knows of it.
pub struct Probe {
    session: Box<dyn Session>,
    other: Box<dyn Session>,
    /// The session of a client with another list of nodes.
    foreign: Box<dyn Session>,
    /// The session of a client with a third list.
    third: Box<dyn Session>,
    pub fleet: Fleet,
    pub foreign_fleet: Fleet,
    pub third_fleet: Fleet,
    pub incarnation: Incarnation,
    pub nonce: Nonce,
}

impl Probe {
    pub async fn open(node: &dyn Node) -> Probe {
        let (fleet, foreign_fleet) =
            (fleet_of(&[node.member()]), fleet_of(&[node.member(), "another"]));
        let (session, other) = (open(node, &fleet).await, open(node, &fleet).await);
        let foreign = open(node, &foreign_fleet).await;
        let third_fleet = fleet_of(&[node.member(), "one", "more"]);
        let third = open(node, &third_fleet).await;
        Probe {
            session,
            other,
            foreign,
            third,
            fleet,
            foreign_fleet,
            third_fleet,
            incarnation: Incarnation::new(""),
            nonce: Nonce(0),
        }
    }

    /// Asks as a client with a third list of nodes.
    pub async fn ask_third(&self, request: Request) -> Reply {
        ask(&*self.third, request).await
    }

    /// Asks as a client with another list of nodes.
    pub async fn ask_foreign(&self, request: Request) -> Reply {
        ask(&*self.foreign, request).await
    }

    pub async fn ask(&self, request: Request) -> Reply {
        ask(&*self.session, request).await
    }

    pub async fn ask_other(&self, request: Request) -> Reply {
        ask(&*self.other, request).await
    }

    /// Makes the future of a call and does not poll it.
    pub fn call(&self, request: Request) -> impl Future<Output = Reply> {
        ask(&*self.session, request)
    }

    pub async fn prepare(&self, nonce: Nonce) -> Prepared {
        match self.ask(Request::Prepare { nonce, from: None }).await {
            Reply::Prepared(prepared) => prepared,
            other => panic!("prepare: {other:?}"),
        }
    }

    pub fn activation(&self, era: u64, collect: bool) -> Request {
        let (incarnation, nonce) = (self.incarnation.clone(), self.nonce);
        let (quarantine, new) = (Duration::ZERO, false);
        Request::Activate { incarnation, nonce, era, collect, quarantine, new }
    }

    pub async fn acquire(&self, resource: &Resource, owner: Owner) -> Reply {
        self.ask(Request::Acquire {
            mode: Mode::Exclusive,
            resource: resource.clone(),
            owner,
            ttl: TTL,
        })
        .await
    }

    /// Acquires a lock that is free.
    pub async fn granted(&self, resource: &Resource, owner: Owner) -> Stamp {
        match self.acquire(resource, owner).await {
            Reply::Granted { stamp, nonce, .. } if nonce == self.nonce => stamp,
            other => panic!("acquire {resource}, which is free: {other:?}"),
        }
    }

    /// Acquires as soon as the node grants.
    pub async fn in_time(&self, resource: &Resource, owner: Owner) -> Stamp {
        let end = Instant::now() + ANSWER_WITHIN;
        loop {
            match self.acquire(resource, owner).await {
                Reply::Granted { stamp, .. } => return stamp,
                other if Instant::now() >= end => {
                    panic!("acquire {resource} for 10 s: {other:?}");
                }
                _ => sleep(Duration::from_millis(10)).await,
            }
        }
    }

    pub async fn held(&self, resource: &Resource, case: &str) -> Duration {
        let nobody = Owner(0xdead);
        match self.acquire(resource, nobody).await {
            Reply::Held { remaining, .. } if !remaining.is_zero() => remaining,
            other => panic!("acquire {resource}, held: {case}: {other:?}"),
        }
    }

    pub async fn release(&self, resource: &Resource, owner: Owner) -> Reply {
        self.ask(Request::Release { resource: resource.clone(), owner }).await
    }

    /// Releases a lock that is held.
    pub async fn free(&self, resource: &Resource, owner: Owner) {
        let reply = self.release(resource, owner).await;
        assert_eq!(reply, Reply::Released, "release {resource}");
    }

    pub async fn publish(
        &self,
        resource: &Resource,
        owner: Owner,
        nonce: Nonce,
        stamp: Stamp,
    ) -> Reply {
        let token = stamp.token().unwrap();
        self.ask(Request::Publish { resource: resource.clone(), owner, nonce, token }).await
    }

    pub async fn renew(
        &self,
        resource: &Resource,
        owner: Owner,
        stamp: Stamp,
        ttl: Duration,
    ) -> Reply {
        let token = stamp.token().unwrap();
        self.ask(Request::Renew {
            mode: Mode::Exclusive,
            resource: resource.clone(),
            owner,
            token,
            ttl,
        })
        .await
    }

    pub async fn state(&self) -> NodeState {
        match self.ask(Request::Read).await {
            Reply::State(state) => state,
            other => panic!("read: {other:?}"),
        }
    }
}

/// Makes the fleet of these nodes.
pub fn fleet_of(names: &[&str]) -> Fleet {
    Fleet::new(names).unwrap()
}

async fn open(node: &dyn Node, fleet: &Fleet) -> Box<dyn Session> {
    answered("open a session", node.open(fleet)).await.unwrap()
}

async fn ask(session: &dyn Session, request: Request) -> Reply {
    let case = format!("{request:?}");
    let reply = answered(&case, session.call(request)).await;
    reply.unwrap_or_else(|fault| panic!("{case}: {fault:?}"))
}
