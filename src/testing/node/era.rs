use fencing_protocol::{Nonce, Reply, Request, Stamp};

use super::probe::{ALICE, BOB, Probe};
use crate::testing::{Breach, Rule, resource};

pub(super) async fn suite(probe: &Probe) -> Result<(), Breach> {
    reserved(probe).await?;
    stays(probe).await?;
    grows(probe).await?;
    bounded(probe).await
}

async fn activate(probe: &Probe, era: u64, collect: bool) -> Result<(), Breach> {
    let reply = probe.ask(probe.activation(era, collect)).await?;
    Rule::Era.same(format!("activate era {era}"), &reply, &Reply::Activated)
}

async fn reserved(probe: &Probe) -> Result<(), Breach> {
    let before = probe.state().await?;
    let most = before.era.max(before.reserved) + 10;
    for era in [most, most - 5, 0] {
        for memory in [None, Some(before.nonce), Some(Nonce(0xbad))] {
            let reply = probe.ask(Request::Reserve { era, memory }).await?;
            let wanted = Reply::Reserved { nonce: before.nonce };
            Rule::Reserved.same(format!("reserve {era}"), &reply, &wanted)?;
        }
        let state = probe.state().await?;
        let case = format!("read after reserving {most}, then {era}");
        Rule::Reserved.same(case, &(state.era, state.reserved), &(before.era, most))?;
    }
    Ok(())
}

/// Checks that the era stays: re-admitting an admitted node changes nothing, and neither does
/// collecting where there is nothing to collect. So clients that race do not drive the era on.
async fn stays(probe: &Probe) -> Result<(), Breach> {
    // An earlier suite has let a count run out.
    activate(probe, probe.state().await?.highest() + 1, true).await?;
    let (resource, before) = (resource("era/same")?, probe.state().await?);
    let mut last = probe.granted(Rule::Counts, &resource, ALICE).await?;
    probe.free(&resource, ALICE).await?;
    let eras = [before.era, before.era - 1, 0, before.reserved + 7];
    for (era, collect) in eras.into_iter().flat_map(|era| [(era, false), (era, true)]) {
        activate(probe, era, collect).await?;
        let state = probe.state().await?;
        let (found, wanted) = ((state.era, state.reserved), (before.era, before.reserved));
        let case = format!("read after era {era} was activated in era {}", before.era);
        Rule::Era.same(case, &found, &wanted)?;
        let next = probe.granted(Rule::Era, &resource, ALICE).await?;
        let wanted = Stamp { count: last.count + 1, ..last };
        Rule::Era.same("acquire after an era that does not begin", &next, &wanted)?;
        probe.free(&resource, ALICE).await?;
        last = next;
    }
    Ok(())
}

/// Lets a count run out, so that the counts must be collected.
async fn run_out(probe: &Probe) -> Result<(), Breach> {
    let (resource, era) = (resource("era/full")?, probe.state().await?.era);
    probe.granted(Rule::Counts, &resource, ALICE).await?;
    let stamp = Stamp { era, count: Stamp::MAX_COUNT };
    probe.publish(&resource, ALICE, probe.nonce, stamp).await?;
    probe.free(&resource, ALICE).await?;
    let crowded = probe.prepare(Nonce(0)).await?.crowded;
    Rule::Exhausted.same("prepare before a count is asked for in vain", &crowded, &false)?;
    let reply = probe.acquire(&resource, ALICE).await?;
    Rule::Exhausted.same("acquire after the last count", &reply, &Reply::Exhausted)?;
    let crowded = probe.prepare(Nonce(0)).await?.crowded;
    Rule::Exhausted.same("prepare after that", &crowded, &true)
}

/// Checks that a larger era drops the counts, and keeps locks and promises.
async fn grows(probe: &Probe) -> Result<(), Breach> {
    let (resource, held) = (resource("era/larger")?, resource("era/held")?);
    probe.granted(Rule::Counts, &resource, ALICE).await?;
    probe.free(&resource, ALICE).await?;
    let old = probe.granted(Rule::Counts, &held, ALICE).await?;
    let before = probe.state().await?;
    for era in [before.era + 1, before.reserved + 5] {
        run_out(probe).await?;
        activate(probe, era, false).await?;
        let found = probe.state().await?.era;
        Rule::Era.holds(found < era, "activate without collecting", &found)?;
        activate(probe, era, true).await?;
        let state = probe.state().await?;
        let found = (state.era, state.reserved, state.nonce);
        let wanted = (era, before.reserved.max(era), before.nonce);
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

/// Checks that no era begins beyond the largest.
async fn bounded(probe: &Probe) -> Result<(), Breach> {
    run_out(probe).await?;
    let before = probe.state().await?;
    let reply = probe.ask(probe.activation(Stamp::MAX_ERA + 1, true)).await?;
    Rule::Era.same("activate an era beyond the largest", &reply, &Reply::Forgotten)?;
    let (found, wanted) = (probe.state().await?.era, before.era);
    Rule::Era.same("read after that", &found, &wanted)
}
