use std::time::Duration;

use tokio::time::Instant;

use super::probe::{ALICE, BOB, Probe};
use crate::quorum::{Reply, Request, Stamp};
use crate::testing::{Breach, Rule, resource};

pub(super) async fn suite(probe: &Probe) -> Result<(), Breach> {
    reserved(probe).await?;
    not_lowered(probe).await?;
    grows(probe).await?;
    settles(probe).await?;
    bounded(probe).await
}

async fn activate(probe: &Probe, era: u64) -> Result<(), Breach> {
    let reply = probe.ask(probe.activation(era, Duration::ZERO)).await?;
    Rule::Era.same(format!("activate era {era}"), &reply, &Reply::Activated)
}

async fn reserved(probe: &Probe) -> Result<(), Breach> {
    let before = probe.state().await?;
    let most = before.era.max(before.reserved) + 10;
    for era in [most, most - 5, 0] {
        let reply = probe.ask(Request::Reserve { era }).await?;
        Rule::Reserved.same(format!("reserve {era}"), &reply, &Reply::Reserved)?;
        let state = probe.state().await?;
        let case = format!("read after reserving {most}, then {era}");
        Rule::Reserved.same(case, &(state.era, state.reserved), &(before.era, most))?;
    }
    Ok(())
}

/// An era that is not larger leaves era and counts.
async fn not_lowered(probe: &Probe) -> Result<(), Breach> {
    let (resource, before) = (resource("era/same")?, probe.state().await?);
    let mut last = probe.granted(Rule::Counts, &resource, ALICE).await?;
    probe.free(&resource, ALICE).await?;
    for era in [before.era, before.era - 1, 0] {
        activate(probe, era).await?;
        let case = format!("read after era {era} was activated in era {}", before.era);
        Rule::Era.same(case, &probe.state().await?, &before)?;
        let next = probe.granted(Rule::Era, &resource, ALICE).await?;
        let wanted = Stamp { count: last.count + 1, ..last };
        Rule::Era.same("acquire after an era that is not larger", &next, &wanted)?;
        probe.free(&resource, ALICE).await?;
        last = next;
    }
    Ok(())
}

/// A larger era drops the counts, and keeps locks and promises.
async fn grows(probe: &Probe) -> Result<(), Breach> {
    let (resource, held) = (resource("era/larger")?, resource("era/held")?);
    probe.granted(Rule::Counts, &resource, ALICE).await?;
    probe.free(&resource, ALICE).await?;
    let old = probe.granted(Rule::Counts, &held, ALICE).await?;
    let before = probe.state().await?;
    for era in [before.era + 1, before.reserved + 5] {
        activate(probe, era).await?;
        let state = probe.state().await?;
        let found = (state.era, state.reserved, state.longest);
        let wanted = (era, before.reserved.max(era), before.longest);
        Rule::Era.same(format!("read after era {era} was activated"), &found, &wanted)?;
        let stamp = probe.granted(Rule::Era, &resource, ALICE).await?;
        Rule::Era.same("acquire in a larger era", &stamp, &Stamp { era, count: 1 })?;
        probe.free(&resource, ALICE).await?;
        probe.held(Rule::OneHolder, &held, "through a larger era").await?;
    }
    let era = probe.state().await?.era;
    let reply = probe.publish(&held, ALICE, probe.nonce, old).await?;
    Rule::PublishCount.same("publish a token of an older era", &reply, &Reply::NotOwner)?;
    probe.free(&held, ALICE).await?;
    let stamp = probe.granted(Rule::Era, &held, BOB).await?;
    Rule::Era.same("acquire after that", &stamp, &Stamp { era, count: 1 })?;
    probe.free(&held, BOB).await
}

async fn settles(probe: &Probe) -> Result<(), Breach> {
    let (resource, settle) = (resource("era/settle")?, Duration::from_millis(300));
    let era = probe.state().await?.era + 1;
    let start = Instant::now();
    let reply = probe.ask(probe.activation(era, settle)).await?;
    Rule::Era.same(format!("activate era {era}"), &reply, &Reply::Activated)?;
    let reply = probe.acquire(&resource, ALICE).await?;
    let right = matches!(reply, Reply::Quarantined { remaining } if remaining <= settle);
    // A reply that came after the end proves nothing.
    let right = right || start.elapsed() >= settle;
    Rule::Quarantine.holds(right, "acquire while a new era settles", &reply)?;
    let stamp = probe.in_time(Rule::Quarantine, &resource, ALICE).await?;
    Rule::Era.same("acquire when the new era has settled", &stamp, &Stamp { era, count: 1 })?;
    probe.free(&resource, ALICE).await
}

/// No token has an era beyond the largest.
async fn bounded(probe: &Probe) -> Result<(), Breach> {
    let before = probe.state().await?;
    let reply = probe.ask(probe.activation(Stamp::MAX_ERA + 1, Duration::ZERO)).await?;
    Rule::Era.same("activate an era beyond the largest", &reply, &Reply::Forgotten)?;
    Rule::Era.same("read after that", &probe.state().await?, &before)
}
