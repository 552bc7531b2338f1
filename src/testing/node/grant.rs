use std::time::Duration;

use fencing_protocol::{Nonce, Reply, Request, Stamp};
use futures_util::future::join;
use tokio::time::Instant;

use super::probe::{ALICE, BOB, Probe, TTL};
use crate::testing::{Breach, Rule, resource};

pub(super) async fn suite(probe: &Probe) -> Result<(), Breach> {
    counts(probe).await?;
    one_holder(probe).await?;
    expiry(probe).await?;
    in_order(probe).await
}

async fn counts(probe: &Probe) -> Result<(), Breach> {
    let (resource, era) = (resource("counts")?, probe.state().await?.era);
    for count in 1..=3 {
        let wanted = Stamp { era, count };
        for case in ["acquire", "acquire again for the same owner"] {
            let stamp = probe.granted(Rule::Counts, &resource, ALICE).await?;
            Rule::Counts.same(case, &stamp, &wanted)?;
        }
        probe.free(&resource, ALICE).await?;
    }
    let blank = probe.prepare(Nonce(0)).await?.blank;
    Rule::Counts.holds(!blank, "prepare a node that has granted", &"blank")?;
    let longest = probe.state().await?.longest;
    let short = Duration::from_secs(60) * 9 / 8;
    Rule::Outlasts.holds(longest <= short, "what may be out after a release", &longest)?;
    let other = crate::testing::resource("counts/other")?;
    probe.granted(Rule::Counts, &other, ALICE).await?;
    let longest = probe.state().await?.longest;
    let right = longest > TTL / 2 && longest <= TTL;
    Rule::Outlasts.holds(right, "what may be out after an acquire", &longest)?;
    probe.free(&other, ALICE).await
}

async fn one_holder(probe: &Probe) -> Result<(), Breach> {
    let resource = resource("held")?;
    probe.granted(Rule::Counts, &resource, ALICE).await?;
    let remaining = probe.held(Rule::OneHolder, &resource, "just now").await?;
    Rule::Expiry.holds(remaining <= TTL, "remaining", &remaining)?;
    let other = Request::Acquire { resource: resource.clone(), owner: BOB, ttl: TTL };
    let reply = probe.ask_other(other).await?;
    let held = matches!(reply, Reply::Held { .. });
    Rule::OneHolder.holds(held, "acquire what is held, over another session", &reply)?;
    probe.free(&resource, ALICE).await?;
    let stamp = probe.granted(Rule::Counts, &resource, BOB).await?;
    Rule::Counts.same("acquire after others were refused", &stamp.count, &2)?;
    probe.free(&resource, BOB).await
}

async fn expiry(probe: &Probe) -> Result<(), Breach> {
    let (resource, ttl) = (resource("expiry")?, Duration::from_millis(200));
    let start = Instant::now();
    let acquire = Request::Acquire { resource: resource.clone(), owner: ALICE, ttl };
    let reply = probe.ask(acquire).await?;
    let granted = matches!(reply, Reply::Granted { .. });
    Rule::Counts.holds(granted, "acquire expiry, which is free", &reply)?;
    let reply = probe.acquire(&resource, BOB).await?;
    let held = matches!(reply, Reply::Held { remaining, .. } if remaining <= ttl);
    // A reply that came after the end proves nothing.
    let right = held || start.elapsed() >= ttl;
    Rule::Expiry.holds(right, "acquire within the TTL of another", &reply)?;
    let stamp = probe.in_time(Rule::Expiry, &resource, BOB).await?;
    Rule::Counts.same("acquire what has expired", &stamp.count, &2)?;
    let reply = probe.release(&resource, ALICE).await?;
    Rule::OwnerReleases.same("release what has expired", &reply, &Reply::NotOwner)?;
    probe.free(&resource, BOB).await
}

/// Checks that a release that is sent behind its acquire takes it back.
async fn in_order(probe: &Probe) -> Result<(), Breach> {
    let resource = resource("order")?;
    let acquire = Request::Acquire { resource: resource.clone(), owner: ALICE, ttl: TTL };
    let release = Request::Release { resource: resource.clone(), owner: ALICE };
    let (acquired, released) = join(probe.call(acquire), probe.call(release)).await;
    let found = (acquired?, released?);
    let right = matches!(found, (Reply::Granted { .. }, Reply::Released));
    Rule::InOrder.holds(right, "acquire and release at once", &found)?;
    probe.granted(Rule::InOrder, &resource, BOB).await?;
    probe.free(&resource, BOB).await
}
