use std::fmt;
use std::ops::RangeInclusive;
pub use std::time::Duration;

use fencing::lock::redlock::{Node, Session};
use fencing_protocol::NodeState;
pub use fencing_protocol::Reply::{
    Activated, Draining, Exhausted, Forgotten, Free, NotAdmitted, NotOwner, Published, Released, Renewed,
};
pub use fencing_protocol::{Fleet, Nonce, Owner, Prepared, Reply, Request, Resource, Sealing, Stamp, Token};
pub use tokio::time::{Instant, sleep};

use crate::{ANSWER_WITHIN, answered};
pub use support::lease::named as resource;
pub use support::requests::*;

/// Asks for a lock alone where others have it.
pub const CAROL: Owner = Owner(0xca401);

/// Another owner holds the lock, for whatever time.
pub const HELD: Reply = Reply::Held { remaining: Duration::MAX, shared: false, holder: None };
/// Others share the lock, for whatever time.
pub const SHARED: Reply = Reply::Held { remaining: Duration::MAX, shared: true, holder: None };

pub struct Client {
    session: Box<dyn Session>,
    pub fleet: Fleet,
}

impl Client {
    async fn of(node: &dyn Node, others: &[&str]) -> Client {
        let fleet = fleet_of(&[&[node.member()], others].concat());
        let session = answered("open a session", node.open(&fleet, "me")).await.unwrap();
        Client { session, fleet }
    }

    pub async fn ask(&self, request: Request) -> Reply {
        let case = format!("{request:?}");
        let reply = answered(&case, ask_alone(&*self.session, request)).await;
        reply.unwrap_or_else(|fault| panic!("{case}: {fault:?}"))
    }

    /// Asks one after the other, and compares the answers.
    pub async fn says<C: fmt::Display>(&self, steps: impl IntoIterator<Item = (C, Request, Reply)>) {
        for (case, request, wanted) in steps {
            let asked = format!("{request:?}");
            assert_eq!(at_any_time(self.ask(request).await), wanted, "{case}: {asked}");
        }
    }
}

/// The reply without what changes with time.
fn at_any_time(reply: Reply) -> Reply {
    match reply {
        Reply::Held { remaining, shared: false, .. } if !remaining.is_zero() => HELD,
        Reply::Held { remaining, shared: true, .. } if !remaining.is_zero() => SHARED,
        Reply::Granted { stamp, nonce, .. } => Reply::Granted { stamp, nonce, crowded: false },
        Reply::Several(parts) => Reply::Several(parts.into_iter().map(at_any_time).collect()),
        other => other,
    }
}

/// The clients of a node, and what the suite knows of it.
pub struct Probe {
    own: Client,
    /// Another client with the same list.
    pub other: Client,
    /// Clients with other lists.
    pub foreign: Client,
    pub third: Client,
    pub nonce: Nonce,
}

impl std::ops::Deref for Probe {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.own
    }
}

impl Probe {
    pub async fn open(node: &dyn Node) -> Probe {
        let (own, other) = (Client::of(node, &[]).await, Client::of(node, &[]).await);
        let (foreign, third) = (Client::of(node, &["another"]).await, Client::of(node, &["one", "more"]).await);
        Probe { own, other, foreign, third, nonce: Nonce(0) }
    }

    pub async fn prepare(&self, nonce: Nonce) -> Prepared {
        match self.ask(Request::Prepare { nonce, from: None }).await {
            Reply::Prepared(prepared) => prepared,
            other => panic!("prepare: {other:?}"),
        }
    }

    pub fn activation(&self, era: u64, collect: bool) -> Request {
        let (nonce, quarantine, new) = (self.nonce, Duration::ZERO, false);
        Request::Activate { nonce, era, collect, quarantine, new }
    }

    pub async fn state(&self) -> NodeState {
        match self.ask(Request::Read).await {
            Reply::State(state) => state,
            other => panic!("read: {other:?}"),
        }
    }

    pub async fn stamps(&self) -> impl Fn(u64) -> Stamp + use<> {
        let era = self.state().await.era;
        move |count| Stamp { era, count }
    }

    pub fn grant(&self, stamp: Stamp) -> Reply {
        Reply::Granted { stamp, nonce: self.nonce, crowded: false }
    }

    pub async fn granted(&self, resource: &Resource, owner: Owner) -> Stamp {
        match self.ask(acquire(resource, owner)).await {
            Reply::Granted { stamp, nonce, .. } if nonce == self.nonce => stamp,
            other => panic!("acquire {resource}, which is free: {other:?}"),
        }
    }

    /// Asks as soon as the node grants.
    pub async fn in_time(&self, request: Request) -> Stamp {
        let end = Instant::now() + ANSWER_WITHIN;
        loop {
            match self.ask(request.clone()).await {
                Reply::Granted { stamp, .. } => return stamp,
                other if Instant::now() >= end => panic!("{request:?} in time: {other:?}"),
                _ => sleep(Duration::from_millis(10)).await,
            }
        }
    }

    pub async fn free<'a>(&self, resources: impl IntoIterator<Item = &'a Resource>, owner: Owner) {
        let part = |resource| ("held", release(resource, owner), Reply::Released);
        self.says(resources.into_iter().map(part)).await;
    }

    /// Checks for how long a lock is still held.
    pub async fn remains(&self, resource: &Resource, range: RangeInclusive<Duration>, case: &str) {
        let nobody = Owner(0xdead);
        let reply = self.ask(acquire(resource, nobody)).await;
        let right = matches!(&reply, Reply::Held { remaining, .. } if range.contains(remaining));
        assert!(right, "acquire {resource}, {case}: {reply:?}, not in {range:?}");
    }

    /// Checks for how long a lock may still be out, as the node has it.
    pub async fn is_out(&self, range: RangeInclusive<Duration>, case: &str) {
        let longest = self.state().await.longest;
        assert!(range.contains(&longest), "out {case}: {longest:?}, not in {range:?}");
    }
}

/// What the node says to be out where nothing is that lasts for longer than a minute.
pub const NOTHING_LONG: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_millis(67_500);

pub fn fleet_of(names: &[&str]) -> Fleet {
    Fleet::new(names).unwrap()
}
