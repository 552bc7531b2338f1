use fencing_protocol::{Nonce, Owner, Reply, Request, Resource, Stamp};

use super::probe::{ALICE, BOB, Probe, TTL, token};
use crate::testing::{Breach, Rule, resource};

/// Checks requests for several locks: each is answered as a request for one is, and of locks that are
/// asked for all are granted or none.
pub(super) async fn suite(probe: &Probe) -> Result<(), Breach> {
    let names = [resource("several/a")?, resource("several/b")?, resource("several/c")?];
    granted_together(probe, &names).await?;
    all_or_none(probe, &names).await?;
    published_and_renewed(probe, &names).await?;
    released(probe, &names).await
}

/// Asks for all of them.
async fn acquire(probe: &Probe, names: &[Resource], owner: Owner) -> Result<Reply, Breach> {
    let part =
        |resource: &Resource| Request::Acquire { resource: resource.clone(), owner, ttl: TTL };
    probe.ask(Request::Several(names.iter().map(part).collect())).await
}

async fn granted(
    probe: &Probe,
    names: &[Resource],
    owner: Owner,
    case: &str,
) -> Result<Vec<Stamp>, Breach> {
    let reply = acquire(probe, names, owner).await?;
    let stamp = |part: &Reply| match part {
        Reply::Granted { stamp, nonce, .. } if *nonce == probe.nonce => Some(*stamp),
        _ => None,
    };
    let stamps = match &reply {
        Reply::Several(parts) if parts.len() == names.len() => parts.iter().map(stamp).collect(),
        _ => None,
    };
    stamps.ok_or_else(|| Rule::AllOrNone.breach(case, &reply))
}

async fn granted_together(probe: &Probe, names: &[Resource]) -> Result<(), Breach> {
    let first = granted(probe, names, ALICE, "acquire several that are free").await?;
    let again = granted(probe, names, ALICE, "acquire them again for the same owner").await?;
    Rule::Counts.same("acquire them again for the same owner", &again, &first)?;
    for name in names {
        probe.held(Rule::OneHolder, name, "with others").await?;
    }
    for name in names {
        probe.free(name, ALICE).await?;
    }
    let stamps = granted(probe, names, BOB, "acquire several that are free again").await?;
    let next = |stamp: &Stamp| Stamp { count: stamp.count + 1, ..*stamp };
    let wanted = first.iter().map(next).collect();
    Rule::Counts.same("acquire several that are free again", &stamps, &wanted)?;
    for name in names {
        probe.free(name, BOB).await?;
    }
    Ok(())
}

async fn all_or_none(probe: &Probe, names: &[Resource]) -> Result<(), Breach> {
    let mut before = Vec::new();
    for (number, held) in names.iter().enumerate() {
        let stamp = probe.granted(Rule::Counts, held, BOB).await?;
        let reply = acquire(probe, names, ALICE).await?;
        let answers = |parts: &Vec<Reply>| {
            let right = |(part, reply): (usize, &Reply)| match reply {
                Reply::Held { remaining, .. } => part == number && !remaining.is_zero(),
                other => part != number && *other == Reply::Free,
            };
            parts.len() == names.len() && parts.iter().enumerate().all(right)
        };
        let right = matches!(&reply, Reply::Several(parts) if answers(parts));
        let case = format!("acquire several, {held} is held");
        Rule::AllOrNone.holds(right, case, &reply)?;
        for other in names.iter().filter(|other| *other != held) {
            let reply = probe.release(other, ALICE).await?;
            let case = format!("release {other}, which was free while {held} was held");
            Rule::AllOrNone.same(case, &reply, &Reply::NotOwner)?;
        }
        probe.free(held, BOB).await?;
        before.push(stamp);
    }
    // What was not granted was not counted.
    let stamps = granted(probe, names, ALICE, "acquire several after others were refused").await?;
    let next = |stamp: &Stamp| Stamp { count: stamp.count + 1, ..*stamp };
    let wanted = before.iter().map(next).collect();
    Rule::Counts.same("acquire several after others were refused", &stamps, &wanted)?;
    for name in names {
        probe.free(name, ALICE).await?;
    }
    Ok(())
}

async fn published_and_renewed(probe: &Probe, names: &[Resource]) -> Result<(), Breach> {
    let stamps = granted(probe, names, ALICE, "acquire several to publish").await?;
    let raised = |stamp: &Stamp| Stamp { count: stamp.count + 5, ..*stamp };
    let raised: Vec<Stamp> = stamps.iter().map(raised).collect();
    let publish = |nonce, owner| {
        let part = |(resource, stamp): (&Resource, &Stamp)| {
            let (resource, token) = (resource.clone(), token(*stamp)?);
            Ok(Request::Publish { resource, owner, nonce, token })
        };
        let parts = names.iter().zip(&raised).map(part).collect::<Result<_, Breach>>()?;
        Ok::<_, Breach>(Request::Several(parts))
    };
    let each = |reply: Reply| Reply::Several(vec![reply; names.len()]);
    let reply = probe.ask(publish(Nonce(0xbad), ALICE)?).await?;
    Rule::PublishNonce.same(
        "publish several, of another memory",
        &reply,
        &each(Reply::NotOwner),
    )?;
    let reply = probe.ask(publish(probe.nonce, BOB)?).await?;
    Rule::PublishOwner.same("publish several of another owner", &reply, &each(Reply::NotOwner))?;
    let reply = probe.ask(publish(probe.nonce, ALICE)?).await?;
    Rule::PublishRaises.same("publish several", &reply, &each(Reply::Published))?;
    let renew = |owner| {
        let part = |(resource, stamp): (&Resource, &Stamp)| {
            let (resource, token) = (resource.clone(), token(*stamp)?);
            Ok(Request::Renew { resource, owner, token, ttl: TTL * 4 })
        };
        let parts = names.iter().zip(&raised).map(part).collect::<Result<_, Breach>>()?;
        Ok::<_, Breach>(Request::Several(parts))
    };
    let reply = probe.ask(renew(ALICE)?).await?;
    Rule::RenewOutcome.same("renew several", &reply, &each(Reply::Renewed))?;
    for name in names {
        let remaining = probe.held(Rule::RenewOutcome, name, "renewed with others").await?;
        Rule::RenewOutcome.holds(remaining > TTL, "remaining after a renewal", &remaining)?;
        probe.free(name, ALICE).await?;
    }
    // Each has its own answer.
    let Some(first) = names.first() else { return Ok(()) };
    let next = probe.granted(Rule::PublishRaises, first, BOB).await?;
    let wanted = raised.first().map_or(0, |stamp| stamp.count + 1);
    Rule::PublishRaises.same("acquire after several were published", &next.count, &wanted)?;
    let reply = probe.ask(renew(ALICE)?).await?;
    let right = matches!(&reply, Reply::Several(parts)
        if matches!(&parts[..], [Reply::Held { .. }, rest @ ..]
            if rest.iter().all(|part| *part == Reply::Renewed)));
    Rule::RenewOutcome.holds(right, "renew several, of which another holds one", &reply)?;
    probe.free(first, BOB).await?;
    for name in names.iter().skip(1) {
        probe.free(name, ALICE).await?;
    }
    Ok(())
}

async fn released(probe: &Probe, names: &[Resource]) -> Result<(), Breach> {
    let part = |resource: &Resource| Request::Release { resource: resource.clone(), owner: ALICE };
    let release = Request::Several(names.iter().map(part).collect());
    granted(probe, names, ALICE, "acquire several to release").await?;
    let Some(first) = names.first() else { return Ok(()) };
    probe.free(first, ALICE).await?;
    let reply = probe.ask(release).await?;
    let right = matches!(&reply, Reply::Several(parts)
        if matches!(&parts[..], [Reply::NotOwner, rest @ ..]
            if rest.iter().all(|part| *part == Reply::Released)));
    Rule::OwnerReleases.holds(right, "release several, of which one is free", &reply)?;
    granted(probe, names, ALICE, "acquire several to shorten").await?;
    let part = |resource: &Resource| Request::Shorten {
        resource: resource.clone(),
        owner: ALICE,
        rest: TTL / 4,
    };
    let reply = probe.ask(Request::Several(names.iter().map(part).collect())).await?;
    let wanted = Reply::Several(vec![Reply::Released; names.len()]);
    Rule::AtLeast.same("shorten several", &reply, &wanted)?;
    for name in names {
        let remaining = probe.held(Rule::AtLeast, name, "shortened with others").await?;
        Rule::AtLeast.holds(remaining <= TTL / 4, "remaining after that", &remaining)?;
        probe.free(name, ALICE).await?;
    }
    Ok(())
}
