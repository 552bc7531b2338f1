//! A node: the real store, and what every session of these worlds says to it.

use std::fmt::Display;
use std::time::Duration;

use fencing_protocol::{
    Attempt, Clocks, Fleet, Incarnation, Membership, Mode, Nonce, Owner, Reply, Request, Resource, Stamp, Store, Terms,
    Time, Token,
};

/// The one fleet that most worlds have.
pub const FLEET: &str = "fleet";

pub const TTL: Duration = Duration::from_secs(1000);

/// One atomic step of a real node. Its clock stands still within a second. The quarantine is taken as over at once: it
/// keeps leases apart in time, and order must hold without. So nobody needs to know how long a lock may be out.
pub fn ask(store: &mut Store, life: u8, second: u8, request: &Request) -> Reply {
    ask_as(&member(life), store, second, request)
}

/// The same for a session of any fleet.
pub fn ask_as(me: &Membership, store: &mut Store, second: impl Into<u64>, request: &Request) -> Reply {
    let clock = Duration::from_secs(second.into());
    let mut request = request.clone();
    if let Request::Activate { quarantine, .. } = &mut request {
        *quarantine = Duration::ZERO;
    }
    let moment = Clocks { now: Time::from_start(clock), clock, uptime: Duration::ZERO };
    let mut reply = store.answer(me, &request, moment);
    match &mut reply {
        Reply::Prepared(prepared) => prepared.state.longest = Duration::ZERO,
        Reply::State(state) => state.longest = Duration::ZERO,
        _ => {}
    }
    reply
}

fn member(life: u8) -> Membership {
    Membership { incarnation: incarnation(life), fleet: Fleet::parse(FLEET).unwrap() }
}

pub fn incarnation(life: impl Display) -> Incarnation {
    Incarnation::new(&format!("life-{life}"))
}

pub fn resource() -> Resource {
    named("r")
}

pub fn named(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

/// An attempt whose time is never up.
pub fn attempt(owner: Owner, mode: Mode) -> Attempt {
    let terms = Terms { ttl: TTL, lock_delay: Duration::ZERO, drift: Duration::ZERO };
    Attempt { owner, mode, terms }
}

pub fn owner(client: u8) -> Owner {
    Owner(u128::from(client) + 1)
}

pub fn token_of(stamp: Stamp) -> Token {
    stamp.token().expect("a stamp of this model is a token")
}

pub fn acquire(resource: Resource, owner: Owner) -> Request {
    Request::Acquire { resource, owner, mode: Mode::Exclusive, ttl: TTL }
}

pub fn activate(nonce: Nonce, era: u64) -> Request {
    Request::Activate { nonce, era, collect: false, quarantine: Duration::ZERO, new: true }
}

/// A node that was admitted in its first life, in this era.
pub fn started(era: u64) -> Store {
    let (mut store, nonce) = (Store::default(), Nonce(1000));
    ask(&mut store, 0, 0, &Request::Prepare { nonce, from: None });
    assert_eq!(ask(&mut store, 0, 0, &activate(nonce, era)), Reply::Activated);
    store
}

/// Whether the node's counts are to be collected.
pub fn is_crowded(mut store: Store, life: u8) -> bool {
    let reply = ask(&mut store, life, 0, &Request::Prepare { nonce: Nonce(0), from: None });
    matches!(reply, Reply::Prepared(prepared) if prepared.crowded)
}

/// The count of another resource runs out on the node that answers.
pub fn run_out(mut ask: impl FnMut(&Request) -> Reply) {
    let (resource, owner) = (named("full"), owner(98));
    let acquire = acquire(resource.clone(), owner);
    let Reply::Granted { stamp, nonce, .. } = ask(&acquire) else { return };
    let token = token_of(Stamp { count: Stamp::MAX_COUNT, ..stamp });
    let publish = Request::Publish { resource: resource.clone(), owner, nonce, token };
    assert_eq!(ask(&publish), Reply::Published);
    ask(&Request::Release { resource, owner });
    assert_eq!(ask(&acquire), Reply::Exhausted);
}

/// Has nobody in particular take the lock, and tells the count.
pub fn count_once(store: &mut Store, life: u8) -> Option<Stamp> {
    store.expire_lock(&resource());
    let reply = ask(store, life, 0, &acquire(resource(), owner(99)));
    if let Reply::Granted { stamp, .. } = reply { Some(stamp) } else { None }
}
