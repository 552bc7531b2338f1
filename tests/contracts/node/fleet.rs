use super::probe::*;

/// Checks what the node answers to a client with another list of nodes.
pub async fn suite(probe: &Probe) {
    let resource = resource("fleet");
    let mine = Reply::OtherFleet(probe.fleet.clone());
    let votes = votes_of(probe, &resource);
    probe.foreign.says(votes.map(|vote| ("another fleet", vote, mine.clone()))).await;
    probe.granted(&resource, ALICE).await;
    probe.free([&resource], ALICE).await
}

fn votes_of(probe: &Probe, resource: &Resource) -> impl Iterator<Item = Request> + use<> {
    let nonce = probe.nonce;
    let prepare = Request::Prepare { nonce: Nonce(0xf4), from: None };
    let more = [prepare, probe.activation(Stamp::MAX_ERA, true)];
    votes(resource, nonce, nonce, Token::MAX, &unknown()).into_iter().chain(more)
}

/// A fleet that has nothing to do with the node.
fn unknown() -> Fleet {
    fleet_of(&["a", "third"])
}

/// Asks the node to leave for the other fleet.
fn seal(probe: &Probe, step: Sealing) -> Request {
    Request::Seal { to: probe.foreign.fleet.clone(), step }
}

/// Lets the node leave its fleet for the other one. It is the last suite: there is no way back.
pub async fn leave(probe: &Probe) {
    let held = resource("sealed");
    let stamp = probe.granted(&held, ALICE).await;
    let before = probe.state().await;
    let era = before.highest() + 10;
    // A mover that was asleep asks a node that has come back, which changes nothing.
    for step in [Sealing::Promise(era), Sealing::Done(before.era)] {
        probe.says([("before it has left", seal(probe, step), Forgotten)]).await;
        assert_eq!(probe.state().await.reserved, before.reserved, "read after that");
    }
    let steps = [
        (Sealing::Leave, before.reserved),
        (Sealing::Promise(era), era),
        (Sealing::Promise(era - 5), era),
        (Sealing::Leave, era),
    ];
    for (step, promised) in steps {
        let reply = probe.ask(seal(probe, step)).await;
        let right = matches!(&reply, Reply::State(state)
            if (state.nonce, state.era, state.reserved) == (before.nonce, before.era, promised)
                && state.longest > TTL / 2);
        assert!(right, "{step:?}: {reply:?}");
    }
    let moved = Reply::Moved(probe.foreign.fleet.clone());
    let votes = votes_of(probe, &held);
    probe.says(votes.map(|vote| ("the fleet that was left", vote, moved.clone()))).await;
    join(probe, &held, stamp, era).await
}

async fn prepared(client: &Client, from: Option<Fleet>, case: &str) -> Prepared {
    match client.ask(Request::Prepare { nonce: Nonce(0xf5), from }).await {
        Reply::Prepared(prepared) if !prepared.admitted => prepared,
        other => panic!("prepare {case}: {other:?}"),
    }
}

/// Checks that a third fleet can't claim the node before the new one was started, and only by a move from there.
async fn elsewhere(probe: &Probe) {
    let prepare = |from| Request::Prepare { nonce: Nonce(0xf5), from };
    let moved = || Reply::Moved(probe.foreign.fleet.clone());
    let steps = [("by a third fleet", prepare(None), moved()), ("by a third fleet", prepare(Some(unknown())), moved())];
    probe.third.says(steps).await;
    probe.ask(seal(probe, Sealing::Done(0))).await;
    probe.third.says([("by a third fleet that is not moved", prepare(None), moved())]).await;
    let third = prepared(&probe.third, Some(unknown()), "by a third fleet that is moved").await;
    assert!(!third.blank, "{third:?}");
    // Back again: it has left for the third fleet now, whose move goes on to the other one.
    prepared(&probe.foreign, Some(probe.third.fleet.clone()), "by the other fleet again").await;
    let reply = probe.ask(seal(probe, Sealing::Leave)).await;
    // It has left and come back, so this is not the memory that was sealed before.
    let right = matches!(&reply, Reply::State(state) if state.nonce != probe.nonce);
    assert!(right, "seal once more: {reply:?}");
}

/// Lets the node join the new fleet, in an era above what it promised to the old one.
async fn join(probe: &Probe, held: &Resource, stamp: Stamp, era: u64) {
    let foreign = &probe.foreign;
    foreign.says([("before it has joined", acquire(held, ALICE), NotAdmitted)]).await;
    elsewhere(probe).await;
    let prepared = prepared(foreign, None, "before it has joined").await;
    let found = (prepared.blank, prepared.other, prepared.state.reserved);
    assert_eq!(found, (false, Some(probe.fleet.clone()), era), "prepare before it has joined");
    let nonce = prepared.state.nonce;
    let activate = |era| Request::Activate { nonce, era, collect: false, quarantine: Duration::ZERO, new: false };
    let promise = Request::Reserve { era: era + 1, memory: Some(nonce) };
    let steps = [
        ("before it has joined", promise, Reply::Reserved { nonce }),
        ("in the era of the old fleet", activate(stamp.era), Forgotten),
        ("in a larger one", activate(era + 1), Activated),
    ];
    foreign.says(steps).await;
    let theirs = Reply::OtherFleet(foreign.fleet.clone());
    probe.says([("under the old fleet", renew(held, ALICE, stamp), theirs)]).await;
    let reply = probe.ask(seal(probe, Sealing::Leave)).await;
    let right = matches!(&reply, Reply::State(state) if state.highest() > era);
    assert!(right, "seal after it has joined: {reply:?}");
    let reply = foreign.ask(acquire(held, ALICE)).await;
    // The lock of the old fleet still stands, or its owner has asked again.
    let right = match &reply {
        Reply::Granted { stamp, .. } => stamp.era == era + 1,
        reply => matches!(reply, Reply::Held { .. }),
    };
    assert!(right, "acquire after it has joined: {reply:?}");
}
