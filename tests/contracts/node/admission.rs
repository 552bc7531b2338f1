use super::probe::*;

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
    let votes = votes(resource, FIRST, SECOND, Token::MIN, &probe.foreign.fleet);
    let case = format!("of a {state} node");
    probe.says(votes.into_iter().map(|vote| (&case, vote, NotAdmitted))).await;
}

async fn first_nonce(probe: &mut Probe) {
    let first = probe.prepare(FIRST).await;
    let wanted = (FIRST, false, true, false, None);
    let found = (first.state.nonce, first.admitted, first.blank, first.crowded, first.other);
    assert_eq!(found, wanted, "prepare a blank node");
    let found = (first.state.era, first.state.reserved, first.state.longest);
    assert_eq!(found, (0, 0, Duration::ZERO), "prepare a blank node");
    let second = probe.other.ask(Request::Prepare { nonce: SECOND, from: None }).await;
    let right = matches!(&second, Reply::Prepared(second)
        if second.state.nonce == FIRST);
    assert!(right, "prepare again over another session: {second:?}");
    probe.nonce = FIRST;
}

fn activate(nonce: Nonce, era: u64) -> Request {
    Request::Activate { nonce, era, collect: false, quarantine: QUARANTINE, new: true }
}

async fn refused(probe: &Probe, resource: &Resource) {
    let steps = [
        ("another memory", activate(SECOND, 7), Forgotten),
        ("no era", activate(FIRST, 0), Forgotten),
        ("an era beyond the largest", activate(FIRST, Stamp::MAX_ERA + 1), Forgotten),
    ];
    probe.says(steps).await;
    no_vote(probe, resource, "wrongly activated").await
}

/// Checks that a node that is about to start promises an era before it counts in it.
async fn promised(probe: &Probe) {
    let promise = Request::Reserve { era: 7, memory: Some(FIRST) };
    probe.says([("as prepared", promise, Reply::Reserved { nonce: FIRST })]).await;
    let prepared = probe.prepare(SECOND).await;
    let found = (prepared.admitted, prepared.state.nonce, prepared.state.reserved);
    assert_eq!(found, (false, FIRST, 7), "prepare after that");
}

async fn quarantined(probe: &Probe, resource: &Resource) {
    let lease = Stamp { era: 7, count: 1 };
    let start = Instant::now();
    probe.says([("as prepared", activate(FIRST, 7), Activated)]).await;
    for request in [acquire(resource, ALICE), renew(resource, ALICE, lease)] {
        let case = format!("in quarantine: {request:?}");
        let reply = probe.ask(request).await;
        // A reply that came after the end proves nothing.
        let right = match &reply {
            Reply::Quarantined { remaining } => *remaining <= QUARANTINE,
            _ => start.elapsed() >= QUARANTINE,
        };
        assert!(right, "{case}: {reply:?}");
    }
    let state = probe.state().await;
    assert_eq!((state.era, state.reserved), (7, 7), "read in quarantine");
    let out = !state.longest.is_zero() || start.elapsed() >= QUARANTINE;
    assert!(out, "what may be out, in quarantine: {:?}", state.longest);
    let promise = Request::Reserve { era: 8, memory: None };
    probe.says([("in quarantine", promise, Reply::Reserved { nonce: FIRST })]).await;
    let prepared = probe.prepare(SECOND).await;
    let found = (prepared.state.nonce, prepared.admitted);
    assert_eq!(found, (FIRST, true), "prepare what is admitted");
    probe.in_time(acquire(resource, ALICE)).await;
    probe.free([resource], ALICE).await
}
