use fencing_protocol::{Nonce, Owner, Reply, Resource, Stamp};

use super::probe::{ALICE, BOB, Probe};
use crate::testing::{Breach, Rule, resource};

pub(super) async fn suite(probe: &Probe) -> Result<(), Breach> {
    guarded(probe).await?;
    raises(probe).await?;
    raises_the_era(probe).await?;
    runs_out(probe).await
}

/// Publishes for the holder, which must succeed.
async fn published(probe: &Probe, resource: &Resource, stamp: Stamp) -> Result<(), Breach> {
    let reply = probe.publish(resource, ALICE, probe.nonce, stamp).await?;
    Rule::PublishRaises.same(format!("publish {stamp:?}"), &reply, &Reply::Published)
}

async fn refused(
    probe: &Probe,
    rule: Rule,
    resource: &Resource,
    (owner, nonce): (Owner, Nonce),
    case: &str,
) -> Result<(), Breach> {
    let stamp = Stamp { era: probe.state().await?.era, count: 500 };
    let reply = probe.publish(resource, owner, nonce, stamp).await?;
    rule.same(format!("publish {case}"), &reply, &Reply::NotOwner)
}

async fn guarded(probe: &Probe) -> Result<(), Breach> {
    let resource = resource("publish")?;
    let (alice, bob) = ((ALICE, probe.nonce), (BOB, probe.nonce));
    let elsewhere = (ALICE, Nonce(0xbad));
    refused(probe, Rule::PublishOwner, &resource, alice, "without a lock").await?;
    probe.granted(Rule::Counts, &resource, ALICE).await?;
    refused(probe, Rule::PublishOwner, &resource, bob, "for another owner").await?;
    refused(probe, Rule::PublishNonce, &resource, elsewhere, "with another nonce").await?;
    probe.free(&resource, ALICE).await?;
    refused(probe, Rule::PublishOwner, &resource, alice, "after the release").await?;
    let stamp = probe.granted(Rule::Counts, &resource, BOB).await?;
    refused(probe, Rule::PublishOwner, &resource, alice, "after another came").await?;
    Rule::PublishOwner.same("acquire after refused publishes", &stamp.count, &2)?;
    probe.free(&resource, BOB).await
}

async fn raises(probe: &Probe) -> Result<(), Breach> {
    let (resource, era) = (resource("raise")?, probe.state().await?.era);
    probe.granted(Rule::Counts, &resource, ALICE).await?;
    for count in [33, 33] {
        published(probe, &resource, Stamp { era, count }).await?;
    }
    // A larger count shows that another owner was there: a repeated request locked again.
    for stamp in [Stamp { era, count: 20 }, Stamp { era: era - 1, count: 900 }] {
        let reply = probe.publish(&resource, ALICE, probe.nonce, stamp).await?;
        Rule::PublishCount.same(format!("publish {stamp:?} below"), &reply, &Reply::NotOwner)?;
    }
    probe.free(&resource, ALICE).await?;
    let stamp = probe.granted(Rule::Counts, &resource, BOB).await?;
    let wanted = Stamp { era, count: 34 };
    Rule::PublishRaises.same("acquire after 33, 20 and an older era", &stamp, &wanted)?;
    probe.free(&resource, BOB).await
}

async fn raises_the_era(probe: &Probe) -> Result<(), Breach> {
    let (raised, other) = (resource("raise/era")?, resource("raise/other")?);
    probe.granted(Rule::Counts, &other, BOB).await?;
    let before = probe.state().await?;
    probe.granted(Rule::Counts, &raised, ALICE).await?;
    let stamp = Stamp { era: before.era + 5, count: 7 };
    published(probe, &raised, stamp).await?;
    let after = probe.state().await?;
    let found = (after.era, after.reserved, after.nonce);
    let wanted = (before.era + 5, before.reserved, before.nonce);
    Rule::PublishRaises.same("read after a larger era was published", &found, &wanted)?;
    probe.free(&raised, ALICE).await?;
    let found = probe.granted(Rule::Counts, &raised, ALICE).await?;
    let wanted = Stamp { count: 8, ..stamp };
    Rule::PublishRaises.same("acquire in the era that was published", &found, &wanted)?;
    probe.free(&raised, ALICE).await?;
    probe.held(Rule::OneHolder, &other, "through a new era").await?;
    probe.free(&other, BOB).await?;
    let found = probe.granted(Rule::Counts, &other, BOB).await?;
    let wanted = Stamp { count: 1, ..stamp };
    Rule::Era.same("acquire another resource in a new era", &found, &wanted)?;
    probe.free(&other, BOB).await
}

async fn runs_out(probe: &Probe) -> Result<(), Breach> {
    let (resource, era) = (resource("exhausted")?, probe.state().await?.era);
    probe.granted(Rule::Counts, &resource, ALICE).await?;
    published(probe, &resource, Stamp { era, count: Stamp::MAX_COUNT - 1 }).await?;
    probe.free(&resource, ALICE).await?;
    let last = probe.granted(Rule::Exhausted, &resource, ALICE).await?;
    Rule::Exhausted.same("the last count", &last.count, &Stamp::MAX_COUNT)?;
    probe.free(&resource, ALICE).await?;
    let reply = probe.acquire(&resource, ALICE).await?;
    Rule::Exhausted.same("acquire after the last count", &reply, &Reply::Exhausted)
}
