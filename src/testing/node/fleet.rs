use std::time::Duration;

use fencing_protocol::{Nonce, Reply, Request, Resource, Sealing, Stamp, Token};

use super::probe::{ALICE, Probe, TTL, fleet_of};
use crate::testing::{Breach, Rule, resource};

/// Checks what the node answers to a client with another list of nodes.
pub(super) async fn suite(probe: &Probe) -> Result<(), Breach> {
    let resource = resource("fleet")?;
    let mine = Reply::OtherFleet(probe.fleet.clone());
    for request in votes(probe, &resource) {
        let case = format!("{request:?} of another fleet");
        Rule::OneFleet.same(case, &probe.ask_foreign(request).await?, &mine)?;
    }
    let to = fleet_of(&["a", "third"])?;
    let reply = probe.ask_foreign(Request::Seal { to, step: Sealing::Leave }).await?;
    Rule::OneFleet.same("a seal by another fleet", &reply, &mine)?;
    probe.granted(Rule::OneFleet, &resource, ALICE).await?;
    probe.free(&resource, ALICE).await
}

/// Lets the node leave its fleet for the other one. It is the last suite: there is no way back.
pub(super) async fn leave(probe: &Probe) -> Result<(), Breach> {
    let held = resource("sealed")?;
    let stamp = probe.granted(Rule::Counts, &held, ALICE).await?;
    let before = probe.state().await?;
    let era = before.highest() + 10;
    // A mover that was asleep asks a node that has come back, which changes nothing.
    for step in [Sealing::Promise(era), Sealing::Done(before.era)] {
        let to = probe.foreign_fleet.clone();
        let reply = probe.ask(Request::Seal { to, step }).await?;
        Rule::Sealed.same(format!("{step:?} before it has left"), &reply, &Reply::Forgotten)?;
        Rule::Sealed.same("read after that", &probe.state().await?.reserved, &before.reserved)?;
    }
    let steps = [
        (Sealing::Leave, before.reserved),
        (Sealing::Promise(era), era),
        (Sealing::Promise(era - 5), era),
        (Sealing::Leave, era),
    ];
    for (step, promised) in steps {
        let to = probe.foreign_fleet.clone();
        let reply = probe.ask(Request::Seal { to, step }).await?;
        let right = matches!(&reply, Reply::Sealed(state)
            if (state.nonce, state.era, state.reserved) == (before.nonce, before.era, promised)
                && state.longest > TTL / 2);
        Rule::Sealed.holds(right, format!("{step:?}"), &reply)?;
    }
    let moved = Reply::Moved(probe.foreign_fleet.clone());
    let to = fleet_of(&["a", "third"])?;
    let votes = votes(probe, &held).into_iter().chain([Request::Seal { to, step: Sealing::Leave }]);
    for request in votes {
        let case = format!("{request:?} of the fleet that was left");
        Rule::Sealed.same(case, &probe.ask(request).await?, &moved)?;
    }
    join(probe, &held, stamp, era).await
}

/// Checks that a third fleet can't claim the node before the new one was started, and only by a
/// move from there.
async fn elsewhere(probe: &Probe) -> Result<(), Breach> {
    let nonce = Nonce(0xf5);
    let moved = Reply::Moved(probe.foreign_fleet.clone());
    for from in [None, Some(fleet_of(&["a", "third"])?)] {
        let reply = probe.ask_third(Request::Prepare { nonce, from }).await?;
        Rule::Sealed.same("prepare by a third fleet", &reply, &moved)?;
    }
    let to = probe.foreign_fleet.clone();
    let step = Sealing::Done(0);
    probe.ask(Request::Seal { to: to.clone(), step }).await?;
    let reply = probe.ask_third(Request::Prepare { nonce, from: None }).await?;
    Rule::Sealed.same("prepare by a third fleet that is not moved", &reply, &moved)?;
    let from = Some(fleet_of(&["a", "third"])?);
    let reply = probe.ask_third(Request::Prepare { nonce, from }).await?;
    let right = matches!(&reply, Reply::Prepared(p) if !p.admitted && !p.blank);
    Rule::Sealed.holds(right, "prepare by a third fleet that is moved", &reply)?;
    // Back again: it has left for the third fleet now, whose move goes on to the other one.
    let from = Some(probe.third_fleet.clone());
    let reply = probe.ask_foreign(Request::Prepare { nonce, from }).await?;
    let right = matches!(&reply, Reply::Prepared(p) if !p.admitted);
    Rule::Sealed.holds(right, "prepare by the other fleet again", &reply)?;
    let reply = probe.ask(Request::Seal { to, step: Sealing::Leave }).await?;
    // It has left and come back, so this is not the memory that was sealed before.
    let right = matches!(&reply, Reply::Sealed(state) if state.nonce != probe.nonce);
    Rule::Sealed.holds(right, "seal once more", &reply)
}

/// Lets the node join the new fleet, in an era above what it promised to the old one.
async fn join(probe: &Probe, held: &Resource, stamp: Stamp, era: u64) -> Result<(), Breach> {
    let acquire = || Request::Acquire { resource: held.clone(), owner: ALICE, ttl: TTL };
    let reply = probe.ask_foreign(acquire()).await?;
    Rule::Sealed.same("acquire before it has joined", &reply, &Reply::NotAdmitted)?;
    elsewhere(probe).await?;
    let reply = probe.ask_foreign(Request::Prepare { nonce: Nonce(0xf3), from: None }).await?;
    let Reply::Prepared(prepared) = reply else {
        return Err(Rule::Sealed.breach("prepare before it has joined", &reply));
    };
    let found = (prepared.admitted, prepared.blank, prepared.other, prepared.state.reserved);
    let wanted = (false, false, Some(probe.fleet.clone()), era);
    Rule::Sealed.same("prepare before it has joined", &found, &wanted)?;
    let nonce = prepared.state.nonce;
    let reply = probe.ask_foreign(Request::Reserve { era: era + 1, memory: Some(nonce) }).await?;
    Rule::Sealed.same("promise before it has joined", &reply, &Reply::Reserved { nonce })?;
    let activate = |era| Request::Activate {
        incarnation: prepared.incarnation.clone(),
        nonce,
        era,
        collect: false,
        quarantine: Duration::ZERO,
        new: false,
    };
    let reply = probe.ask_foreign(activate(stamp.era)).await?;
    Rule::Sealed.same("join in the era of the old fleet", &reply, &Reply::Forgotten)?;
    let reply = probe.ask_foreign(activate(era + 1)).await?;
    Rule::Sealed.same("join", &reply, &Reply::Activated)?;
    let token = stamp.token().unwrap_or(Token::MIN);
    let renew = Request::Renew { resource: held.clone(), owner: ALICE, token, ttl: TTL };
    let theirs = Reply::OtherFleet(probe.foreign_fleet.clone());
    let reply = probe.ask(renew).await?;
    Rule::Sealed.same("renew under the old fleet", &reply, &theirs)?;
    let to = probe.foreign_fleet.clone();
    let reply = probe.ask(Request::Seal { to, step: Sealing::Leave }).await?;
    let right = matches!(&reply, Reply::Sealed(state) if state.highest() > era);
    Rule::Sealed.holds(right, "seal after it has joined", &reply)?;
    let reply = probe.ask_foreign(acquire()).await?;
    // The lock of the old fleet still stands, or its owner has asked again.
    let right = match &reply {
        Reply::Granted { stamp, .. } => stamp.era == era + 1,
        reply => matches!(reply, Reply::Held { .. }),
    };
    Rule::Sealed.holds(right, "acquire after it has joined", &reply)
}

fn votes(probe: &Probe, resource: &Resource) -> Vec<Request> {
    let (resource, owner, token) = (|| resource.clone(), ALICE, Token::MAX);
    vec![
        Request::Acquire { resource: resource(), owner, ttl: TTL },
        Request::Publish { resource: resource(), owner, nonce: probe.nonce, token },
        Request::Renew { resource: resource(), owner, token, ttl: TTL },
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
