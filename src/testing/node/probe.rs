use std::time::Duration;

use fencing_protocol::{
    Fleet, Incarnation, Nonce, Owner, Prepared, Reply, Request, Resource, Stamp, State, Token,
};
use tokio::time::{Instant, sleep, timeout};

use crate::lock::redlock::{Node, Session};
use crate::testing::{ANSWER_WITHIN, Breach, Rule};

pub(super) const ALICE: Owner = Owner(0xa11ce);
pub(super) const BOB: Owner = Owner(0xb0b);
/// A TTL that is longer than any suite takes.
pub(super) const TTL: Duration = Duration::from_secs(600);

/// Sessions with a node, and what the suite knows of it.
pub(super) struct Probe {
    session: Box<dyn Session>,
    other: Box<dyn Session>,
    /// The session of a client with another list of nodes.
    foreign: Box<dyn Session>,
    /// The session of a client with a third list.
    third: Box<dyn Session>,
    pub(super) fleet: Fleet,
    pub(super) foreign_fleet: Fleet,
    pub(super) third_fleet: Fleet,
    pub(super) incarnation: Incarnation,
    pub(super) nonce: Nonce,
}

impl Probe {
    pub(super) async fn open(node: &dyn Node) -> Result<Probe, Breach> {
        let (fleet, foreign_fleet) =
            (fleet_of(&[node.member()])?, fleet_of(&[node.member(), "another"])?);
        let (session, other) = (open(node, &fleet).await?, open(node, &fleet).await?);
        let foreign = open(node, &foreign_fleet).await?;
        let third_fleet = fleet_of(&[node.member(), "one", "more"])?;
        let third = open(node, &third_fleet).await?;
        Ok(Probe {
            session,
            other,
            foreign,
            third,
            fleet,
            foreign_fleet,
            third_fleet,
            incarnation: Incarnation::new(""),
            nonce: Nonce(0),
        })
    }

    /// Asks as a client with a third list of nodes.
    pub(super) async fn ask_third(&self, request: Request) -> Result<Reply, Breach> {
        ask(&*self.third, request).await
    }

    /// Asks as a client with another list of nodes.
    pub(super) async fn ask_foreign(&self, request: Request) -> Result<Reply, Breach> {
        ask(&*self.foreign, request).await
    }

    pub(super) async fn ask(&self, request: Request) -> Result<Reply, Breach> {
        ask(&*self.session, request).await
    }

    pub(super) async fn ask_other(&self, request: Request) -> Result<Reply, Breach> {
        ask(&*self.other, request).await
    }

    /// Makes the future of a call and does not poll it.
    pub(super) fn call(&self, request: Request) -> impl Future<Output = Result<Reply, Breach>> {
        ask(&*self.session, request)
    }

    pub(super) async fn prepare(&self, nonce: Nonce) -> Result<Prepared, Breach> {
        match self.ask(Request::Prepare { nonce, from: None }).await? {
            Reply::Prepared(prepared) => Ok(prepared),
            other => Err(Rule::FirstNonce.breach("prepare", &other)),
        }
    }

    pub(super) fn activation(&self, era: u64, collect: bool) -> Request {
        let (incarnation, nonce) = (self.incarnation.clone(), self.nonce);
        let (quarantine, new) = (Duration::ZERO, false);
        Request::Activate { incarnation, nonce, era, collect, quarantine, new }
    }

    pub(super) async fn acquire(&self, resource: &Resource, owner: Owner) -> Result<Reply, Breach> {
        self.ask(Request::Acquire { resource: resource.clone(), owner, ttl: TTL }).await
    }

    /// Acquires a lock that is free.
    pub(super) async fn granted(
        &self,
        rule: Rule,
        resource: &Resource,
        owner: Owner,
    ) -> Result<Stamp, Breach> {
        match self.acquire(resource, owner).await? {
            Reply::Granted { stamp, nonce, .. } if nonce == self.nonce => Ok(stamp),
            other => Err(rule.breach(format!("acquire {resource}, which is free"), &other)),
        }
    }

    /// Acquires as soon as the node grants.
    pub(super) async fn in_time(
        &self,
        rule: Rule,
        resource: &Resource,
        owner: Owner,
    ) -> Result<Stamp, Breach> {
        let end = Instant::now() + ANSWER_WITHIN;
        loop {
            match self.acquire(resource, owner).await? {
                Reply::Granted { stamp, .. } => return Ok(stamp),
                other if Instant::now() >= end => {
                    return Err(rule.breach(format!("acquire {resource} for 10 s"), &other));
                }
                _ => sleep(Duration::from_millis(10)).await,
            }
        }
    }

    pub(super) async fn held(
        &self,
        rule: Rule,
        resource: &Resource,
        case: &str,
    ) -> Result<Duration, Breach> {
        let nobody = Owner(0xdead);
        match self.acquire(resource, nobody).await? {
            Reply::Held { remaining, .. } if !remaining.is_zero() => Ok(remaining),
            other => Err(rule.breach(format!("acquire {resource}, held: {case}"), &other)),
        }
    }

    pub(super) async fn release(&self, resource: &Resource, owner: Owner) -> Result<Reply, Breach> {
        self.ask(Request::Release { resource: resource.clone(), owner }).await
    }

    /// Releases a lock that is held.
    pub(super) async fn free(&self, resource: &Resource, owner: Owner) -> Result<(), Breach> {
        let reply = self.release(resource, owner).await?;
        Rule::OwnerReleases.same(format!("release {resource}"), &reply, &Reply::Released)
    }

    pub(super) async fn publish(
        &self,
        resource: &Resource,
        owner: Owner,
        nonce: Nonce,
        stamp: Stamp,
    ) -> Result<Reply, Breach> {
        let token = token(stamp)?;
        self.ask(Request::Publish { resource: resource.clone(), owner, nonce, token }).await
    }

    pub(super) async fn renew(
        &self,
        resource: &Resource,
        owner: Owner,
        stamp: Stamp,
        ttl: Duration,
    ) -> Result<Reply, Breach> {
        let token = token(stamp)?;
        self.ask(Request::Renew { resource: resource.clone(), owner, token, ttl }).await
    }

    pub(super) async fn state(&self) -> Result<State, Breach> {
        match self.ask(Request::Read).await? {
            Reply::State(state) => Ok(state),
            other => Err(Rule::Answers.breach("read", &other)),
        }
    }
}

/// Makes the fleet of these nodes.
pub(super) fn fleet_of(names: &[&str]) -> Result<Fleet, Breach> {
    Fleet::new(names).map_err(|error| Rule::OneFleet.breach("the node's name", &error))
}

async fn open(node: &dyn Node, fleet: &Fleet) -> Result<Box<dyn Session>, Breach> {
    match timeout(ANSWER_WITHIN, node.open(fleet)).await {
        Ok(Ok(session)) => Ok(session),
        Ok(Err(fault)) => Err(Rule::Answers.breach("open a session", &fault)),
        Err(_) => Err(Rule::Answers.breach("open a session", &"no answer")),
    }
}

async fn ask(session: &dyn Session, request: Request) -> Result<Reply, Breach> {
    match timeout(ANSWER_WITHIN, session.call(request.clone())).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(fault)) => Err(Rule::Answers.breach(format!("{request:?}"), &fault)),
        Err(_) => Err(Rule::Answers.breach(format!("{request:?}"), &"no answer")),
    }
}

pub(super) fn token(stamp: Stamp) -> Result<Token, Breach> {
    stamp.token().ok_or_else(|| Rule::Counts.breach("the stamp of a grant", &stamp))
}
