use std::time::Duration;

use fencing_protocol::{Mode, Nonce, Reply, Request, Resource, Sealing, Stamp, Token};

use super::probe::{ALICE, Probe, TTL, fleet_of};
use crate::resource;

/// Checks what the node answers to a client with another list of nodes.
pub async fn suite(probe: &Probe) {
    let resource = resource("fleet");
    let mine = Reply::OtherFleet(probe.fleet.clone());
    for request in votes(probe, &resource) {
        let case = format!("{request:?} of another fleet");
        assert_eq!(probe.ask_foreign(request).await, mine, "{case}");
    }
    let to = fleet_of(&["a", "third"]);
    let reply = probe.ask_foreign(Request::Seal { to, step: Sealing::Leave }).await;
    assert_eq!(reply, mine, "a seal by another fleet");
    probe.granted(&resource, ALICE).await;
    probe.free(&resource, ALICE).await
}

/// Lets the node leave its fleet for the other one. It is the last suite: there is no way back.
pub async fn leave(probe: &Probe) {
    let held = resource("sealed");
    let stamp = probe.granted(&held, ALICE).await;
    let before = probe.state().await;
    let era = before.highest() + 10;
    // A mover that was asleep asks a node that has come back, which changes nothing.
    for step in [Sealing::Promise(era), Sealing::Done(before.era)] {
        let to = probe.foreign_fleet.clone();
        let reply = probe.ask(Request::Seal { to, step }).await;
        assert_eq!(reply, Reply::Forgotten, "{step:?} before it has left");
        assert_eq!(probe.state().await.reserved, before.reserved, "read after that");
    }
    let steps = [
        (Sealing::Leave, before.reserved),
        (Sealing::Promise(era), era),
        (Sealing::Promise(era - 5), era),
        (Sealing::Leave, era),
    ];
    for (step, promised) in steps {
        let to = probe.foreign_fleet.clone();
        let reply = probe.ask(Request::Seal { to, step }).await;
        let right = matches!(&reply, Reply::Sealed(state)
            if (state.nonce, state.era, state.reserved) == (before.nonce, before.era, promised)
                && state.longest > TTL / 2);
        assert!(right, "{step:?}: {reply:?}");
    }
    let moved = Reply::Moved(probe.foreign_fleet.clone());
    let to = fleet_of(&["a", "third"]);
    let votes = votes(probe, &held).into_iter().chain([Request::Seal { to, step: Sealing::Leave }]);
    for request in votes {
        let case = format!("{request:?} of the fleet that was left");
        assert_eq!(probe.ask(request).await, moved, "{case}");
    }
    join(probe, &held, stamp, era).await
}

/// Checks that a third fleet can't claim the node before the new one was started, and only by a
/// move from there.
async fn elsewhere(probe: &Probe) {
    let nonce = Nonce(0xf5);
    let moved = Reply::Moved(probe.foreign_fleet.clone());
    for from in [None, Some(fleet_of(&["a", "third"]))] {
        let reply = probe.ask_third(Request::Prepare { nonce, from }).await;
        assert_eq!(reply, moved, "prepare by a third fleet");
    }
    let to = probe.foreign_fleet.clone();
    let step = Sealing::Done(0);
    probe.ask(Request::Seal { to: to.clone(), step }).await;
    let reply = probe.ask_third(Request::Prepare { nonce, from: None }).await;
    assert_eq!(reply, moved, "prepare by a third fleet that is not moved");
    let from = Some(fleet_of(&["a", "third"]));
    let reply = probe.ask_third(Request::Prepare { nonce, from }).await;
    let right = matches!(&reply, Reply::Prepared(p) if !p.admitted && !p.blank);
    assert!(right, "prepare by a third fleet that is moved: {reply:?}");
    // Back again: it has left for the third fleet now, whose move goes on to the other one.
    let from = Some(probe.third_fleet.clone());
    let reply = probe.ask_foreign(Request::Prepare { nonce, from }).await;
    let right = matches!(&reply, Reply::Prepared(p) if !p.admitted);
    assert!(right, "prepare by the other fleet again: {reply:?}");
    let reply = probe.ask(Request::Seal { to, step: Sealing::Leave }).await;
    // It has left and come back, so this is not the memory that was sealed before.
    let right = matches!(&reply, Reply::Sealed(state) if state.nonce != probe.nonce);
    assert!(right, "seal once more: {reply:?}");
}

/// Lets the node join the new fleet, in an era above what it promised to the old one.
async fn join(probe: &Probe, held: &Resource, stamp: Stamp, era: u64) {
    let acquire = || Request::Acquire {
        mode: Mode::Exclusive,
        resource: held.clone(),
        owner: ALICE,
        ttl: TTL,
    };
    let reply = probe.ask_foreign(acquire()).await;
    assert_eq!(reply, Reply::NotAdmitted, "acquire before it has joined");
    elsewhere(probe).await;
    let reply = probe.ask_foreign(Request::Prepare { nonce: Nonce(0xf3), from: None }).await;
    let Reply::Prepared(prepared) = reply else {
        panic!("prepare before it has joined: {reply:?}");
    };
    let found = (prepared.admitted, prepared.blank, prepared.other, prepared.state.reserved);
    let wanted = (false, false, Some(probe.fleet.clone()), era);
    assert_eq!(found, wanted, "prepare before it has joined");
    let nonce = prepared.state.nonce;
    let reply = probe.ask_foreign(Request::Reserve { era: era + 1, memory: Some(nonce) }).await;
    assert_eq!(reply, Reply::Reserved { nonce }, "promise before it has joined");
    let activate = |era| Request::Activate {
        incarnation: prepared.incarnation.clone(),
        nonce,
        era,
        collect: false,
        quarantine: Duration::ZERO,
        new: false,
    };
    let reply = probe.ask_foreign(activate(stamp.era)).await;
    assert_eq!(reply, Reply::Forgotten, "join in the era of the old fleet");
    let reply = probe.ask_foreign(activate(era + 1)).await;
    assert_eq!(reply, Reply::Activated, "join");
    let token = stamp.token().unwrap_or(Token::MIN);
    let renew = Request::Renew {
        mode: Mode::Exclusive,
        resource: held.clone(),
        owner: ALICE,
        token,
        ttl: TTL,
    };
    let theirs = Reply::OtherFleet(probe.foreign_fleet.clone());
    let reply = probe.ask(renew).await;
    assert_eq!(reply, theirs, "renew under the old fleet");
    let to = probe.foreign_fleet.clone();
    let reply = probe.ask(Request::Seal { to, step: Sealing::Leave }).await;
    let right = matches!(&reply, Reply::Sealed(state) if state.highest() > era);
    assert!(right, "seal after it has joined: {reply:?}");
    let reply = probe.ask_foreign(acquire()).await;
    // The lock of the old fleet still stands, or its owner has asked again.
    let right = match &reply {
        Reply::Granted { stamp, .. } => stamp.era == era + 1,
        reply => matches!(reply, Reply::Held { .. }),
    };
    assert!(right, "acquire after it has joined: {reply:?}");
}

fn votes(probe: &Probe, resource: &Resource) -> Vec<Request> {
    let (resource, owner, token) = (|| resource.clone(), ALICE, Token::MAX);
    vec![
        Request::Acquire { mode: Mode::Exclusive, resource: resource(), owner, ttl: TTL },
        Request::Publish { resource: resource(), owner, nonce: probe.nonce, token },
        Request::Renew { mode: Mode::Exclusive, resource: resource(), owner, token, ttl: TTL },
        Request::Release { resource: resource(), owner },
        Request::Read,
        Request::Inspect,
        Request::Reserve { era: 3, memory: None },
        Request::Reserve { era: 3, memory: Some(probe.nonce) },
        Request::Prepare { nonce: Nonce(0xf4), from: None },
        probe.activation(Stamp::MAX_ERA, true),
        Request::Open { nonce: probe.nonce },
    ]
}
