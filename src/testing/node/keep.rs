use std::time::Duration;

use fencing_protocol::{Owner, Reply, Request, Resource};

use super::probe::{ALICE, BOB, Probe, TTL};
use crate::testing::{Breach, Rule, resource};

/// Checks renewal and release.
pub(super) async fn suite(probe: &Probe) -> Result<(), Breach> {
    renewal(probe).await?;
    healing(probe).await?;
    release(probe).await?;
    shorten(probe).await
}

async fn renewal(probe: &Probe) -> Result<(), Breach> {
    let resource = resource("renew")?;
    let stamp = probe.granted(Rule::Counts, &resource, ALICE).await?;
    let reply = probe.renew(&resource, ALICE, stamp, TTL * 4).await?;
    Rule::RenewOutcome.same("renew for the owner", &reply, &Reply::Renewed)?;
    let remaining = probe.held(Rule::RenewOutcome, &resource, "renewed").await?;
    let extended = remaining > TTL && remaining <= TTL * 4;
    Rule::RenewOutcome.holds(extended, "remaining after a renewal for longer", &remaining)?;
    let longest = probe.state().await?.longest;
    let right = longest > TTL * 3 && longest <= TTL * 4;
    Rule::Outlasts.holds(right, "what may be out after a renewal", &longest)?;
    let reply = probe.renew(&resource, BOB, stamp, TTL).await?;
    let held = matches!(reply, Reply::Held { .. });
    Rule::RenewOutcome.holds(held, "renew for another owner", &reply)?;
    probe.free(&resource, ALICE).await?;
    let next = probe.granted(Rule::Counts, &resource, BOB).await?;
    Rule::RenewOutcome.same("acquire after a renewal", &next.count, &(stamp.count + 1))?;
    probe.free(&resource, BOB).await
}

async fn healing(probe: &Probe) -> Result<(), Breach> {
    let resource = resource("heal")?;
    let stamp = probe.granted(Rule::Counts, &resource, ALICE).await?;
    probe.free(&resource, ALICE).await?;
    let reply = probe.renew(&resource, ALICE, stamp, TTL).await?;
    Rule::RenewOutcome.same("renew what is missing", &reply, &Reply::Renewed)?;
    probe.held(Rule::RenewOutcome, &resource, "healed").await?;
    probe.free(&resource, ALICE).await?;
    let next = probe.granted(Rule::Counts, &resource, BOB).await?;
    Rule::Counts.same("acquire after healing", &next.count, &(stamp.count + 1))?;
    let reply = probe.renew(&resource, ALICE, stamp, TTL).await?;
    let held = matches!(reply, Reply::Held { .. });
    Rule::RenewOutcome.holds(held, "renew what another holds since", &reply)?;
    probe.free(&resource, BOB).await?;
    let reply = probe.renew(&resource, ALICE, stamp, TTL).await?;
    Rule::RenewOutcome.same("renew what another has held since", &reply, &Reply::NotOwner)?;
    let last = probe.granted(Rule::RenewOutcome, &resource, ALICE).await?;
    Rule::Counts.same("acquire after that", &last.count, &(next.count + 1))?;
    probe.free(&resource, ALICE).await
}

async fn release(probe: &Probe) -> Result<(), Breach> {
    let resource = resource("release")?;
    let refused = |case, reply| Rule::OwnerReleases.same(case, &reply, &Reply::NotOwner);
    refused("release what is free", probe.release(&resource, ALICE).await?)?;
    probe.granted(Rule::Counts, &resource, ALICE).await?;
    refused("release for another owner", probe.release(&resource, BOB).await?)?;
    probe.held(Rule::OwnerReleases, &resource, "another released it").await?;
    probe.free(&resource, ALICE).await?;
    refused("release twice", probe.release(&resource, ALICE).await?)?;
    probe.granted(Rule::Counts, &resource, BOB).await?;
    refused("release what another holds since", probe.release(&resource, ALICE).await?)?;
    probe.held(Rule::OwnerReleases, &resource, "released by the last holder").await?;
    probe.free(&resource, BOB).await
}

/// Checks a release that leaves the lock closed for the rest of its time.
async fn shorten(probe: &Probe) -> Result<(), Breach> {
    let (resource, rest) = (resource("shorten")?, Duration::from_secs(90));
    let refused = |case, reply| Rule::AtLeast.same(case, &reply, &Reply::NotOwner);
    refused("shorten what is free", ends_in(probe, &resource, ALICE, rest).await?)?;
    probe.granted(Rule::Counts, &resource, ALICE).await?;
    refused("shorten for another owner", ends_in(probe, &resource, BOB, rest).await?)?;
    let remaining = probe.held(Rule::AtLeast, &resource, "another shortened it").await?;
    Rule::AtLeast.holds(remaining > rest, "remaining after another shortened it", &remaining)?;
    // A rest that is longer than the lock lasts changes nothing.
    for (asked, most) in [(rest, rest), (TTL, rest)] {
        let reply = ends_in(probe, &resource, ALICE, asked).await?;
        Rule::AtLeast.same("shorten for the owner", &reply, &Reply::Released)?;
        let remaining = probe.held(Rule::AtLeast, &resource, "shortened").await?;
        let right = remaining > rest / 2 && remaining <= most;
        Rule::AtLeast.holds(right, "remaining of a lock that was shortened", &remaining)?;
        let longest = probe.state().await?.longest;
        let right = longest > rest / 2 && longest <= most;
        Rule::Outlasts.holds(right, "what may be out after a lock was shortened", &longest)?;
    }
    let brief = Duration::from_millis(200);
    let reply = ends_in(probe, &resource, ALICE, brief).await?;
    Rule::AtLeast.same("shorten once more", &reply, &Reply::Released)?;
    let stamp = probe.in_time(Rule::AtLeast, &resource, BOB).await?;
    Rule::Counts.same("acquire after the rest", &stamp.count, &2)?;
    refused("shorten what another holds since", ends_in(probe, &resource, ALICE, rest).await?)?;
    let reply = ends_in(probe, &resource, BOB, Duration::ZERO).await?;
    Rule::AtLeast.same("shorten to nothing", &reply, &Reply::Released)?;
    probe.granted(Rule::AtLeast, &resource, ALICE).await?;
    probe.free(&resource, ALICE).await
}

async fn ends_in(
    probe: &Probe,
    resource: &Resource,
    owner: Owner,
    rest: Duration,
) -> Result<Reply, Breach> {
    probe.ask(Request::Shorten { resource: resource.clone(), owner, rest }).await
}
