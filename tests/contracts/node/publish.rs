use super::probe::*;

pub async fn suite(probe: &Probe) {
    guarded(probe).await;
    raises(probe).await;
    raises_the_era(probe).await
}

async fn guarded(probe: &Probe) {
    let (name, stamp, bad) = (resource("publish"), probe.stamps().await, Nonce(0xbad));
    let publishes = |owner, nonce| publish(&name, owner, nonce, stamp(500));
    let steps = [
        ("publish without a lock", publishes(ALICE, probe.nonce), NotOwner),
        ("free", acquire(&name, ALICE), probe.grant(stamp(1))),
        ("publish for another owner", publishes(BOB, probe.nonce), NotOwner),
        ("publish with another nonce", publishes(ALICE, bad), NotOwner),
        ("held", release(&name, ALICE), Released),
        ("publish after the release", publishes(ALICE, probe.nonce), NotOwner),
        ("after refused publishes", acquire(&name, BOB), probe.grant(stamp(2))),
        ("publish after another came", publishes(ALICE, probe.nonce), NotOwner),
        ("held", release(&name, BOB), Released),
    ];
    probe.says(steps).await
}

async fn raises(probe: &Probe) {
    let (name, stamp) = (resource("raise"), probe.stamps().await);
    let old = Stamp { era: stamp(900).era - 1, count: 900 };
    let publishes = |stamp| publish(&name, ALICE, probe.nonce, stamp);
    probe.granted(&name, ALICE).await;
    let steps = [
        ("a larger count", publishes(stamp(33)), Published),
        ("again", publishes(stamp(33)), Published),
        // A larger count shows that another owner was there: a repeated request locked again.
        ("below", publishes(stamp(20)), NotOwner),
        ("in an older era", publishes(old), NotOwner),
        ("held", release(&name, ALICE), Released),
        ("after 33, 20 and an older era", acquire(&name, BOB), probe.grant(stamp(34))),
        ("held", release(&name, BOB), Released),
    ];
    probe.says(steps).await
}

async fn raises_the_era(probe: &Probe) {
    let (raised, other) = (resource("raise/era"), resource("raise/other"));
    probe.granted(&other, BOB).await;
    let before = probe.state().await;
    probe.granted(&raised, ALICE).await;
    let stamp = |count| Stamp { era: before.era + 5, count };
    probe.says([("a larger era", publish(&raised, ALICE, probe.nonce, stamp(7)), Published)]).await;
    let after = probe.state().await;
    let found = (after.era, after.reserved, after.nonce);
    let wanted = (before.era + 5, before.reserved, before.nonce);
    assert_eq!(found, wanted, "read after a larger era was published");
    let steps = [
        ("held", release(&raised, ALICE), Released),
        ("in the era that was published", acquire(&raised, ALICE), probe.grant(stamp(8))),
        ("held", release(&raised, ALICE), Released),
        ("through a new era", acquire(&other, ALICE), HELD),
        ("held", release(&other, BOB), Released),
        ("another one in a new era", acquire(&other, BOB), probe.grant(stamp(1))),
        ("held", release(&other, BOB), Released),
    ];
    probe.says(steps).await
}
