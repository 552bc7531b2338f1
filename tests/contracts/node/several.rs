use fencing_protocol::{Mode, Nonce, Owner, Reply, Request, Resource, Stamp};

use super::probe::{ALICE, BOB, Probe, TTL};
use crate::resource;

/// Checks requests for several locks: each is answered as a request for one is, and of locks that are
/// asked for all are granted or none.
pub async fn suite(probe: &Probe) {
    let names = [resource("several/a"), resource("several/b"), resource("several/c")];
    granted_together(probe, &names).await;
    all_or_none(probe, &names).await;
    published_and_renewed(probe, &names).await;
    released(probe, &names).await
}

/// Asks for all of them.
async fn acquire(probe: &Probe, names: &[Resource; 3], owner: Owner) -> Reply {
    let part = |resource: &Resource| Request::Acquire {
        mode: Mode::Exclusive,
        resource: resource.clone(),
        owner,
        ttl: TTL,
    };
    probe.ask(Request::Several(names.iter().map(part).collect())).await
}

async fn granted(probe: &Probe, names: &[Resource; 3], owner: Owner, case: &str) -> Vec<Stamp> {
    let reply = acquire(probe, names, owner).await;
    let stamp = |part: &Reply| match part {
        Reply::Granted { stamp, nonce, .. } if *nonce == probe.nonce => Some(*stamp),
        _ => None,
    };
    let stamps = match &reply {
        Reply::Several(parts) if parts.len() == names.len() => parts.iter().map(stamp).collect(),
        _ => None,
    };
    stamps.unwrap_or_else(|| panic!("{case}: {reply:?}"))
}

async fn granted_together(probe: &Probe, names: &[Resource; 3]) {
    let first = granted(probe, names, ALICE, "acquire several that are free").await;
    let again = granted(probe, names, ALICE, "acquire them again for the same owner").await;
    assert_eq!(again, first, "acquire them again for the same owner");
    for name in names {
        probe.held(name, "with others").await;
    }
    for name in names {
        probe.free(name, ALICE).await;
    }
    let stamps = granted(probe, names, BOB, "acquire several that are free again").await;
    let next = |stamp: &Stamp| Stamp { count: stamp.count + 1, ..*stamp };
    let wanted: Vec<_> = first.iter().map(next).collect();
    assert_eq!(stamps, wanted, "acquire several that are free again");
    for name in names {
        probe.free(name, BOB).await;
    }
}

async fn all_or_none(probe: &Probe, names: &[Resource; 3]) {
    let mut before = Vec::new();
    for (number, held) in names.iter().enumerate() {
        let stamp = probe.granted(held, BOB).await;
        let reply = acquire(probe, names, ALICE).await;
        let answers = |parts: &Vec<Reply>| {
            let right = |(part, reply): (usize, &Reply)| match reply {
                Reply::Held { remaining, .. } => part == number && !remaining.is_zero(),
                other => part != number && *other == Reply::Free,
            };
            parts.len() == names.len() && parts.iter().enumerate().all(right)
        };
        let right = matches!(&reply, Reply::Several(parts) if answers(parts));
        let case = format!("acquire several, {held} is held");
        assert!(right, "{case}: {reply:?}");
        for other in names.iter().filter(|other| *other != held) {
            let reply = probe.release(other, ALICE).await;
            let case = format!("release {other}, which was free while {held} was held");
            assert_eq!(reply, Reply::NotOwner, "{case}");
        }
        probe.free(held, BOB).await;
        before.push(stamp);
    }
    // What was not granted was not counted.
    let stamps = granted(probe, names, ALICE, "acquire several after others were refused").await;
    let next = |stamp: &Stamp| Stamp { count: stamp.count + 1, ..*stamp };
    let wanted: Vec<_> = before.iter().map(next).collect();
    assert_eq!(stamps, wanted, "acquire several after others were refused");
    for name in names {
        probe.free(name, ALICE).await;
    }
}

async fn published_and_renewed(probe: &Probe, names: &[Resource; 3]) {
    let stamps = granted(probe, names, ALICE, "acquire several to publish").await;
    let raised = |stamp: &Stamp| Stamp { count: stamp.count + 5, ..*stamp };
    let raised: Vec<Stamp> = stamps.iter().map(raised).collect();
    let publish = |nonce, owner| {
        let part = |(resource, stamp): (&Resource, &Stamp)| {
            let (resource, token) = (resource.clone(), stamp.token().unwrap());
            Request::Publish { resource, owner, nonce, token }
        };
        probe.ask(Request::Several(names.iter().zip(&raised).map(part).collect()))
    };
    let each = |reply: Reply| Reply::Several(vec![reply; names.len()]);
    let reply = publish(Nonce(0xbad), ALICE).await;
    assert_eq!(reply, each(Reply::NotOwner), "publish several, of another memory");
    let reply = publish(probe.nonce, BOB).await;
    assert_eq!(reply, each(Reply::NotOwner), "publish several of another owner");
    let reply = publish(probe.nonce, ALICE).await;
    assert_eq!(reply, each(Reply::Published), "publish several");
    let renew = || {
        let part = |(resource, stamp): (&Resource, &Stamp)| {
            let (resource, token) = (resource.clone(), stamp.token().unwrap());
            Request::Renew { mode: Mode::Exclusive, resource, owner: ALICE, token, ttl: TTL * 4 }
        };
        probe.ask(Request::Several(names.iter().zip(&raised).map(part).collect()))
    };
    let reply = renew().await;
    assert_eq!(reply, each(Reply::Renewed), "renew several");
    for name in names {
        let remaining = probe.held(name, "renewed with others").await;
        assert!(remaining > TTL, "remaining after a renewal: {remaining:?}");
        probe.free(name, ALICE).await;
    }
    // Each has its own answer.
    let first = &names[0];
    let next = probe.granted(first, BOB).await;
    assert_eq!(next.count, raised[0].count + 1, "acquire after several were published");
    let reply = renew().await;
    let right = matches!(&reply, Reply::Several(parts)
        if matches!(&parts[..], [Reply::Held { .. }, rest @ ..]
            if rest.iter().all(|part| *part == Reply::Renewed)));
    assert!(right, "renew several, of which another holds one: {reply:?}");
    probe.free(first, BOB).await;
    for name in names.iter().skip(1) {
        probe.free(name, ALICE).await;
    }
}

async fn released(probe: &Probe, names: &[Resource; 3]) {
    let part = |resource: &Resource| Request::Release { resource: resource.clone(), owner: ALICE };
    let release = Request::Several(names.iter().map(part).collect());
    granted(probe, names, ALICE, "acquire several to release").await;
    let first = &names[0];
    probe.free(first, ALICE).await;
    let reply = probe.ask(release).await;
    let right = matches!(&reply, Reply::Several(parts)
        if matches!(&parts[..], [Reply::NotOwner, rest @ ..]
            if rest.iter().all(|part| *part == Reply::Released)));
    assert!(right, "release several, of which one is free: {reply:?}");
    granted(probe, names, ALICE, "acquire several to shorten").await;
    let part = |resource: &Resource| Request::Shorten {
        resource: resource.clone(),
        owner: ALICE,
        rest: TTL / 4,
    };
    let reply = probe.ask(Request::Several(names.iter().map(part).collect())).await;
    let wanted = Reply::Several(vec![Reply::Released; names.len()]);
    assert_eq!(reply, wanted, "shorten several");
    for name in names {
        let remaining = probe.held(name, "shortened with others").await;
        assert!(remaining <= TTL / 4, "remaining after that: {remaining:?}");
        probe.free(name, ALICE).await;
    }
}
