use super::probe::*;

pub async fn suite(probe: &Probe) {
    reserved(probe).await;
    stays(probe).await;
    grows(probe).await;
    bounded(probe).await
}

async fn activate(probe: &Probe, era: u64, collect: bool) {
    probe.says([("admitted", probe.activation(era, collect), Activated)]).await;
}

async fn reserved(probe: &Probe) {
    let before = probe.state().await;
    let most = before.era.max(before.reserved) + 10;
    for era in [most, most - 5, 0] {
        for memory in [None, Some(before.nonce), Some(Nonce(0xbad))] {
            let wanted = Reply::Reserved { nonce: before.nonce };
            probe.says([("admitted", Request::Reserve { era, memory }, wanted)]).await;
        }
        let state = probe.state().await;
        let case = format!("read after reserving {most}, then {era}");
        assert_eq!((state.era, state.reserved), (before.era, most), "{case}");
    }
}

/// Checks that the era stays: re-admitting an admitted node changes nothing, and neither does
/// collecting where there is nothing to collect. So clients that race do not drive the era on.
async fn stays(probe: &Probe) {
    let (name, stamp, before) = (resource("era/same"), probe.stamps().await, probe.state().await);
    let eras = [before.era, before.era - 1, 0, before.reserved + 7];
    let eras = eras.into_iter().flat_map(|era| [(era, false), (era, true)]);
    for (count, (era, collect)) in (1..).zip(eras) {
        activate(probe, era, collect).await;
        let state = probe.state().await;
        let (found, wanted) = ((state.era, state.reserved), (before.era, before.reserved));
        assert_eq!(found, wanted, "read after {era} was activated in {}", before.era);
        let next = probe.granted(&name, ALICE).await;
        assert_eq!(next, stamp(count), "acquire after an era that does not begin");
        probe.free([&name], ALICE).await;
    }
}

/// Publishes this count, and lets the counts behind it run out, so that they must be collected.
async fn run_out(probe: &Probe, published: u64) {
    let (name, stamp) = (resource("era/full"), probe.stamps().await);
    probe.granted(&name, ALICE).await;
    probe.says([("one of the last", publish(&name, ALICE, probe.nonce, stamp(published)), Published)]).await;
    probe.free([&name], ALICE).await;
    for count in published + 1..=Stamp::MAX_COUNT {
        probe.says([("the last count", acquire(&name, ALICE), probe.grant(stamp(count)))]).await;
        probe.free([&name], ALICE).await;
    }
    let crowded = probe.prepare(Nonce(0)).await.crowded;
    assert!(!crowded, "prepare before a count is asked for in vain");
    probe.says([("after the last count", acquire(&name, ALICE), Exhausted)]).await;
    assert!(probe.prepare(Nonce(0)).await.crowded, "prepare after that");
}

/// Checks that a larger era drops the counts, and keeps locks and promises.
async fn grows(probe: &Probe) {
    let (name, held) = (resource("era/larger"), resource("era/held"));
    probe.granted(&name, ALICE).await;
    probe.free([&name], ALICE).await;
    let old = probe.granted(&held, ALICE).await;
    let before = probe.state().await;
    for era in [before.era + 1, before.reserved + 5] {
        run_out(probe, Stamp::MAX_COUNT).await;
        activate(probe, era, false).await;
        let found = probe.state().await.era;
        assert!(found < era, "activate without collecting: {found:?}");
        activate(probe, era, true).await;
        let state = probe.state().await;
        let found = (state.era, state.reserved, state.nonce);
        let wanted = (era, before.reserved.max(era), before.nonce);
        assert_eq!(found, wanted, "read after era {era} was activated");
        let steps = [
            ("in a larger era", acquire(&name, ALICE), probe.grant(Stamp { era, count: 1 })),
            ("held", release(&name, ALICE), Released),
            ("through a larger era", acquire(&held, BOB), HELD),
        ];
        probe.says(steps).await;
    }
    let first = probe.grant(probe.stamps().await(1));
    let steps = [
        ("in an older era", publish(&held, ALICE, probe.nonce, old), NotOwner),
        ("held", release(&held, ALICE), Released),
        ("after that", acquire(&held, BOB), first),
        ("held", release(&held, BOB), Released),
    ];
    probe.says(steps).await
}

async fn bounded(probe: &Probe) {
    run_out(probe, Stamp::MAX_COUNT - 1).await;
    let before = probe.state().await.era;
    let (fresh, full) = (resource("era/fresh"), resource("era/full"));
    let both = Request::Several(vec![acquire(&fresh, BOB), acquire(&full, BOB)]);
    let steps = [
        ("the count of one has run out", both, Exhausted),
        ("the other one after that", release(&fresh, BOB), NotOwner),
        ("beyond the largest", probe.activation(Stamp::MAX_ERA + 1, true), Forgotten),
    ];
    probe.says(steps).await;
    assert_eq!(probe.state().await.era, before, "read after that");
}
