use std::time::Duration;

use fencing_protocol::{Incarnation, Mode, Nonce, Reply, Request, Resource, Sealing, Stamp, Token};
use tokio::time::Instant;

use super::probe::{ALICE, Probe, TTL};
use crate::resource;

const FIRST: Nonce = Nonce(0xf1);
const SECOND: Nonce = Nonce(0xf2);
const QUARANTINE: Duration = Duration::from_millis(400);

/// Leads a node from blank to granting.
pub async fn admit(mut probe: Probe) -> Probe {
    let resource = resource("admission");
    no_vote(&probe, &resource, "blank").await;
    first_nonce(&mut probe).await;
    no_vote(&probe, &resource, "prepared").await;
    refused(&probe, &resource).await;
    promised(&probe).await;
    no_vote(&probe, &resource, "promising").await;
    quarantined(&probe, &resource).await;
    probe
}

async fn no_vote(probe: &Probe, resource: &Resource, state: &str) {
    let (resource, owner, token) = (|| resource.clone(), ALICE, Token::MIN);
    let votes = [
        Request::Acquire { mode: Mode::Exclusive, resource: resource(), owner, ttl: TTL },
        Request::Publish { resource: resource(), owner, nonce: FIRST, token },
        Request::Renew { mode: Mode::Exclusive, resource: resource(), owner, token, ttl: TTL },
        Request::Release { resource: resource(), owner },
        Request::Read,
        Request::Inspect,
        Request::Reserve { era: 3, memory: None },
        Request::Reserve { era: 3, memory: Some(SECOND) },
        Request::Seal { to: probe.foreign_fleet.clone(), step: Sealing::Leave },
        Request::Seal { to: probe.foreign_fleet.clone(), step: Sealing::Done(9) },
        Request::Open { nonce: FIRST },
    ];
    for request in votes {
        let case = format!("{request:?} of a {state} node");
        let reply = probe.ask(request).await;
        assert_eq!(reply, Reply::NotAdmitted, "{case}");
    }
}

async fn first_nonce(probe: &mut Probe) {
    let first = probe.prepare(FIRST).await;
    let wanted = (FIRST, false, true, false, None);
    let found = (first.state.nonce, first.admitted, first.blank, first.crowded, first.other);
    assert_eq!(found, wanted, "prepare a blank node");
    let found = (first.state.era, first.state.reserved, first.state.longest);
    assert_eq!(found, (0, 0, Duration::ZERO), "prepare a blank node");
    let second = probe.ask_other(Request::Prepare { nonce: SECOND, from: None }).await;
    let Reply::Prepared(second) = second else {
        panic!("prepare again: {second:?}");
    };
    let found = (second.state.nonce, second.incarnation);
    let wanted = (FIRST, first.incarnation.clone());
    assert_eq!(found, wanted, "prepare again over another session");
    (probe.nonce, probe.incarnation) = (FIRST, first.incarnation);
}

fn activate(incarnation: Incarnation, nonce: Nonce, era: u64) -> Request {
    let (collect, quarantine, new) = (false, QUARANTINE, true);
    Request::Activate { incarnation, nonce, era, collect, quarantine, new }
}

async fn refused(probe: &Probe, resource: &Resource) {
    let here = || probe.incarnation.clone();
    let other = Incarnation::new("another-life");
    let wrong = [
        activate(here(), SECOND, 7),
        activate(other, FIRST, 7),
        activate(here(), FIRST, 0),
        activate(here(), FIRST, Stamp::MAX_ERA + 1),
    ];
    for request in wrong {
        let case = format!("{request:?}");
        let reply = probe.ask(request).await;
        assert_eq!(reply, Reply::Forgotten, "{case}");
    }
    no_vote(probe, resource, "wrongly activated").await
}

/// Checks that a node that is about to start promises an era before it counts in it.
async fn promised(probe: &Probe) {
    let reserve = Request::Reserve { era: 7, memory: Some(FIRST) };
    let reply = probe.ask(reserve).await;
    let wanted = Reply::Reserved { nonce: FIRST };
    assert_eq!(reply, wanted, "reserve in the memory that was prepared");
    let prepared = probe.prepare(SECOND).await;
    let found = (prepared.admitted, prepared.state.nonce, prepared.state.reserved);
    assert_eq!(found, (false, FIRST, 7), "prepare after that");
}

async fn quarantined(probe: &Probe, resource: &Resource) {
    let lease = Stamp { era: 7, count: 1 };
    let start = Instant::now();
    let reply = probe.ask(activate(probe.incarnation.clone(), FIRST, 7)).await;
    assert_eq!(reply, Reply::Activated, "activate what was prepared");
    for renewal in [false, true] {
        let reply = match renewal {
            false => probe.acquire(resource, ALICE).await,
            true => probe.renew(resource, ALICE, lease, TTL).await,
        };
        // A reply that came after the end proves nothing.
        let closed = start.elapsed() < QUARANTINE;
        let right = match &reply {
            Reply::Quarantined { remaining } => *remaining <= QUARANTINE,
            _ => !closed,
        };
        let case = if renewal { "renew in quarantine" } else { "acquire in quarantine" };
        assert!(right, "{case}: {reply:?}");
    }
    let state = probe.state().await;
    assert_eq!((state.era, state.reserved), (7, 7), "read in quarantine");
    let out = !state.longest.is_zero() || start.elapsed() >= QUARANTINE;
    assert!(out, "what may be out, in quarantine: {:?}", state.longest);
    let reply = probe.ask(Request::Reserve { era: 8, memory: None }).await;
    let wanted = Reply::Reserved { nonce: FIRST };
    assert_eq!(reply, wanted, "reserve in quarantine");
    let prepared = probe.prepare(SECOND).await;
    let found = (prepared.state.nonce, prepared.admitted);
    assert_eq!(found, (FIRST, true), "prepare what is admitted");
    probe.in_time(resource, ALICE).await;
    probe.free(resource, ALICE).await
}
