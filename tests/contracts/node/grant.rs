use std::time::Duration;

use fencing_protocol::{Mode, Nonce, Reply, Request, Stamp};
use futures_util::future::join;
use tokio::time::Instant;

use super::probe::{ALICE, BOB, Probe, TTL};
use crate::resource;

pub async fn suite(probe: &Probe) {
    counts(probe).await;
    one_holder(probe).await;
    expiry(probe).await;
    in_order(probe).await
}

async fn counts(probe: &Probe) {
    let (resource, era) = (resource("counts"), probe.state().await.era);
    for count in 1..=3 {
        let wanted = Stamp { era, count };
        for case in ["acquire", "acquire again for the same owner"] {
            let stamp = probe.granted(&resource, ALICE).await;
            assert_eq!(stamp, wanted, "{case}");
        }
        probe.free(&resource, ALICE).await;
    }
    let blank = probe.prepare(Nonce(0)).await.blank;
    assert!(!blank, "prepare a node that has granted: blank");
    let longest = probe.state().await.longest;
    let short = Duration::from_secs(60) * 9 / 8;
    assert!(longest <= short, "what may be out after a release: {longest:?}");
    let other = crate::resource("counts/other");
    probe.granted(&other, ALICE).await;
    let longest = probe.state().await.longest;
    let right = longest > TTL / 2 && longest <= TTL;
    assert!(right, "what may be out after an acquire: {longest:?}");
    probe.free(&other, ALICE).await
}

async fn one_holder(probe: &Probe) {
    let resource = resource("held");
    probe.granted(&resource, ALICE).await;
    let remaining = probe.held(&resource, "just now").await;
    assert!(remaining <= TTL, "remaining: {remaining:?}");
    let other = Request::Acquire {
        mode: Mode::Exclusive,
        resource: resource.clone(),
        owner: BOB,
        ttl: TTL,
    };
    let reply = probe.ask_other(other).await;
    let held = matches!(reply, Reply::Held { shared: false, .. });
    assert!(held, "acquire what is held, over another session: {reply:?}");
    probe.free(&resource, ALICE).await;
    let stamp = probe.granted(&resource, BOB).await;
    assert_eq!(stamp.count, 2, "acquire after others were refused");
    probe.free(&resource, BOB).await
}

async fn expiry(probe: &Probe) {
    let (resource, ttl) = (resource("expiry"), Duration::from_millis(200));
    let start = Instant::now();
    let acquire =
        Request::Acquire { mode: Mode::Exclusive, resource: resource.clone(), owner: ALICE, ttl };
    let reply = probe.ask(acquire).await;
    let granted = matches!(reply, Reply::Granted { .. });
    assert!(granted, "acquire expiry, which is free: {reply:?}");
    let reply = probe.acquire(&resource, BOB).await;
    let held = matches!(reply, Reply::Held { shared: false, remaining, .. } if remaining <= ttl);
    // A reply that came after the end proves nothing.
    let right = held || start.elapsed() >= ttl;
    assert!(right, "acquire within the TTL of another: {reply:?}");
    let stamp = probe.in_time(&resource, BOB).await;
    assert_eq!(stamp.count, 2, "acquire what has expired");
    let reply = probe.release(&resource, ALICE).await;
    assert_eq!(reply, Reply::NotOwner, "release what has expired");
    probe.free(&resource, BOB).await
}

/// Checks that a release that is sent behind its acquire takes it back.
async fn in_order(probe: &Probe) {
    let resource = resource("order");
    let acquire = Request::Acquire {
        mode: Mode::Exclusive,
        resource: resource.clone(),
        owner: ALICE,
        ttl: TTL,
    };
    let release = Request::Release { resource: resource.clone(), owner: ALICE };
    let (acquired, released) = join(probe.call(acquire), probe.call(release)).await;
    let found = (acquired, released);
    let right = matches!(found, (Reply::Granted { .. }, Reply::Released));
    assert!(right, "acquire and release at once: {found:?}");
    probe.granted(&resource, BOB).await;
    probe.free(&resource, BOB).await
}
