use futures_util::future::join;

use super::probe::*;

pub async fn suite(probe: &Probe) {
    counts(probe).await;
    one_holder(probe).await;
    expiry(probe).await;
    in_order(probe).await
}

async fn counts(probe: &Probe) {
    let (name, other) = (resource("counts"), resource("counts/other"));
    let stamp = probe.stamps().await;
    for count in 1..=3 {
        let granted = probe.grant(stamp(count));
        let steps = [
            ("free", acquire(&name, ALICE), granted.clone()),
            ("again for the same owner", acquire(&name, ALICE), granted),
        ];
        probe.says(steps).await;
        probe.free([&name], ALICE).await;
    }
    assert!(!probe.prepare(Nonce(0)).await.blank, "prepare a node that has granted: blank");
    probe.is_out(NOTHING_LONG, "after a release").await;
    probe.granted(&other, ALICE).await;
    probe.is_out(TTL / 2..=TTL, "after an acquire").await;
    probe.free([&other], ALICE).await
}

async fn one_holder(probe: &Probe) {
    let name = resource("held");
    probe.granted(&name, ALICE).await;
    probe.remains(&name, Duration::from_millis(1)..=TTL, "held").await;
    probe.other.says([("held, over another session", acquire(&name, BOB), HELD)]).await;
    probe.free([&name], ALICE).await;
    assert_eq!(probe.granted(&name, BOB).await.count, 2, "acquire after others were refused");
    probe.free([&name], BOB).await
}

async fn expiry(probe: &Probe) {
    let (name, ttl) = (resource("expiry"), Duration::from_millis(200));
    let start = Instant::now();
    let granted = probe.grant(probe.stamps().await(1));
    probe.says([("free", lasting(acquire(&name, ALICE), ttl), granted)]).await;
    let reply = probe.ask(acquire(&name, BOB)).await;
    let held = matches!(reply, Reply::Held { shared: false, remaining, .. } if remaining <= ttl);
    // A reply that came after the end proves nothing.
    assert!(held || start.elapsed() >= ttl, "acquire within the TTL of another: {reply:?}");
    assert_eq!(probe.in_time(acquire(&name, BOB)).await.count, 2, "acquire what has expired");
    probe.says([("what has expired", release(&name, ALICE), Reply::NotOwner)]).await;
    probe.free([&name], BOB).await
}

/// Checks that a release that is sent behind its acquire takes it back.
async fn in_order(probe: &Probe) {
    let name = resource("order");
    let both = join(probe.ask(acquire(&name, ALICE)), probe.ask(release(&name, ALICE))).await;
    let right = matches!(both, (Reply::Granted { .. }, Reply::Released));
    assert!(right, "acquire and release at once: {both:?}");
    probe.granted(&name, BOB).await;
    probe.free([&name], BOB).await
}

pub async fn names_apart(probe: &Probe) {
    let (stamp, names) = (probe.stamps().await, crate::names());
    for (name, count) in names.iter().zip(1..) {
        let first = probe.granted(name, ALICE).await;
        assert_eq!(first, stamp(1), "acquire {name} for the first time");
        probe.ask(publish(name, ALICE, probe.nonce, stamp(100 * count))).await;
    }
    for (name, count) in names.iter().zip(1..) {
        probe.says([("with all the others", acquire(name, BOB), HELD)]).await;
        probe.free([name], ALICE).await;
        let next = probe.granted(name, ALICE).await;
        assert_eq!(next, stamp(100 * count + 1), "acquire {name} again");
        probe.free([name], ALICE).await;
    }
}
