//! Requests to a node, as its suites ask them.

use std::pin::Pin;
use std::time::Duration;

use fencing::lock::redlock::{Group, Session};
use fencing::{Resource, Token};
use fencing_protocol::{Fault, Fleet, Mode, Nonce, Owner, Reply, Request, Sealing, Stamp};

type Answer = Result<Reply, Fault>;
type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Asks one request in a call of its own.
pub fn ask_alone(session: &dyn Session, request: Request) -> BoxFuture<'static, Answer> {
    let call = session.call(Group::from_iter([request]));
    Box::pin(async move { call.await.pop().expect("an answer") })
}

pub const ALICE: Owner = Owner(0xa11ce);
pub const BOB: Owner = Owner(0xb0b);

/// Longer than any test takes.
pub const TTL: Duration = Duration::from_secs(600);

pub fn acquire(resource: &Resource, owner: Owner) -> Request {
    Request::Acquire { mode: Mode::Exclusive, resource: resource.clone(), owner, ttl: TTL }
}

pub fn share(resource: &Resource, owner: Owner) -> Request {
    Request::Acquire { mode: Mode::Shared, resource: resource.clone(), owner, ttl: TTL }
}

pub fn renew(resource: &Resource, owner: Owner, stamp: Stamp) -> Request {
    renew_as(Mode::Exclusive, resource, owner, stamp)
}

pub fn renew_share(resource: &Resource, owner: Owner, stamp: Stamp) -> Request {
    renew_as(Mode::Shared, resource, owner, stamp)
}

fn renew_as(mode: Mode, resource: &Resource, owner: Owner, stamp: Stamp) -> Request {
    let token = stamp.token().expect("a token");
    Request::Renew { mode, resource: resource.clone(), owner, token, ttl: TTL }
}

/// The same request for another time.
pub fn lasting(mut request: Request, time: Duration) -> Request {
    if let Request::Acquire { ttl, .. } | Request::Renew { ttl, .. } = &mut request {
        *ttl = time;
    }
    request
}

pub fn publish(resource: &Resource, owner: Owner, nonce: Nonce, stamp: Stamp) -> Request {
    let token = stamp.token().expect("a token");
    Request::Publish { resource: resource.clone(), owner, nonce, token }
}

pub fn release(resource: &Resource, owner: Owner) -> Request {
    Request::Release { resource: resource.clone(), owner }
}

pub fn retire(resource: &Resource, owner: Owner, stamp: Stamp) -> Request {
    let token = stamp.token().expect("a token");
    Request::Retire { resource: resource.clone(), owner, token }
}

pub fn shorten(resource: &Resource, owner: Owner, rest: Duration) -> Request {
    Request::Shorten { resource: resource.clone(), owner, rest }
}

/// All that a node grants or tells only as a member of the fleet that asks; an era is promised in `memory`.
pub fn votes(resource: &Resource, nonce: Nonce, memory: Nonce, token: Token, to: &Fleet) -> Vec<Request> {
    let stamp = Stamp::from(token);
    let seal = |step| Request::Seal { to: to.clone(), step };
    let other = Resource::new("with others").expect("a name");
    vec![
        acquire(resource, ALICE),
        Request::Several(vec![acquire(resource, ALICE), acquire(&other, ALICE)]),
        publish(resource, ALICE, nonce, stamp),
        renew(resource, ALICE, stamp),
        Request::Resume { resource: resource.clone(), owner: ALICE, least: Duration::ZERO, ttl: TTL },
        release(resource, ALICE),
        retire(resource, ALICE, stamp),
        Request::Read,
        Request::Inspect,
        Request::Reserve { era: 9, memory: None },
        Request::Reserve { era: 9, memory: Some(memory) },
        seal(Sealing::Leave),
        seal(Sealing::Promise(9)),
        seal(Sealing::Done(9)),
        Request::Open { nonce },
    ]
}
