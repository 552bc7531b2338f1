use fencing_protocol::{Mode, Nonce, Reply, Request, Resource, Stamp};

use super::probe::{ALICE, BOB, Probe, TTL};
use crate::resource;

pub async fn suite(probe: &Probe) {
    reserved(probe).await;
    stays(probe).await;
    grows(probe).await;
    bounded(probe).await
}

async fn activate(probe: &Probe, era: u64, collect: bool) {
    let reply = probe.ask(probe.activation(era, collect)).await;
    assert_eq!(reply, Reply::Activated, "activate era {era}");
}

async fn reserved(probe: &Probe) {
    let before = probe.state().await;
    let most = before.era.max(before.reserved) + 10;
    for era in [most, most - 5, 0] {
        for memory in [None, Some(before.nonce), Some(Nonce(0xbad))] {
            let reply = probe.ask(Request::Reserve { era, memory }).await;
            let wanted = Reply::Reserved { nonce: before.nonce };
            assert_eq!(reply, wanted, "reserve {era}");
        }
        let state = probe.state().await;
        let case = format!("read after reserving {most}, then {era}");
        assert_eq!((state.era, state.reserved), (before.era, most), "{case}");
    }
}

/// Checks that the era stays: re-admitting an admitted node changes nothing, and neither does
/// collecting where there is nothing to collect. So clients that race do not drive the era on.
async fn stays(probe: &Probe) {
    // An earlier suite has let a count run out.
    activate(probe, probe.state().await.highest() + 1, true).await;
    let (resource, before) = (resource("era/same"), probe.state().await);
    let mut last = probe.granted(&resource, ALICE).await;
    probe.free(&resource, ALICE).await;
    let eras = [before.era, before.era - 1, 0, before.reserved + 7];
    for (era, collect) in eras.into_iter().flat_map(|era| [(era, false), (era, true)]) {
        activate(probe, era, collect).await;
        let state = probe.state().await;
        let (found, wanted) = ((state.era, state.reserved), (before.era, before.reserved));
        let case = format!("read after era {era} was activated in era {}", before.era);
        assert_eq!(found, wanted, "{case}");
        let next = probe.granted(&resource, ALICE).await;
        let wanted = Stamp { count: last.count + 1, ..last };
        assert_eq!(next, wanted, "acquire after an era that does not begin");
        probe.free(&resource, ALICE).await;
        last = next;
    }
}

/// Lets a count run out, so that the counts must be collected.
async fn run_out(probe: &Probe) {
    let (resource, era) = (resource("era/full"), probe.state().await.era);
    probe.granted(&resource, ALICE).await;
    let stamp = Stamp { era, count: Stamp::MAX_COUNT };
    probe.publish(&resource, ALICE, probe.nonce, stamp).await;
    probe.free(&resource, ALICE).await;
    let crowded = probe.prepare(Nonce(0)).await.crowded;
    assert!(!crowded, "prepare before a count is asked for in vain");
    let reply = probe.acquire(&resource, ALICE).await;
    assert_eq!(reply, Reply::Exhausted, "acquire after the last count");
    let crowded = probe.prepare(Nonce(0)).await.crowded;
    assert!(crowded, "prepare after that");
}

/// Checks that a larger era drops the counts, and keeps locks and promises.
async fn grows(probe: &Probe) {
    let (resource, held) = (resource("era/larger"), resource("era/held"));
    probe.granted(&resource, ALICE).await;
    probe.free(&resource, ALICE).await;
    let old = probe.granted(&held, ALICE).await;
    let before = probe.state().await;
    for era in [before.era + 1, before.reserved + 5] {
        run_out(probe).await;
        activate(probe, era, false).await;
        let found = probe.state().await.era;
        assert!(found < era, "activate without collecting: {found:?}");
        activate(probe, era, true).await;
        let state = probe.state().await;
        let found = (state.era, state.reserved, state.nonce);
        let wanted = (era, before.reserved.max(era), before.nonce);
        assert_eq!(found, wanted, "read after era {era} was activated");
        let stamp = probe.granted(&resource, ALICE).await;
        assert_eq!(stamp, Stamp { era, count: 1 }, "acquire in a larger era");
        probe.free(&resource, ALICE).await;
        probe.held(&held, "through a larger era").await;
    }
    let era = probe.state().await.era;
    let reply = probe.publish(&held, ALICE, probe.nonce, old).await;
    assert_eq!(reply, Reply::NotOwner, "publish a token of an older era");
    probe.free(&held, ALICE).await;
    let stamp = probe.granted(&held, BOB).await;
    assert_eq!(stamp, Stamp { era, count: 1 }, "acquire after that");
    probe.free(&held, BOB).await
}

/// Checks that no count and no era goes beyond the largest.
async fn bounded(probe: &Probe) {
    run_out(probe).await;
    let (fresh, full) = (resource("era/fresh"), resource("era/full"));
    let part = |name: &Resource| Request::Acquire {
        resource: name.clone(),
        mode: Mode::Exclusive,
        owner: BOB,
        ttl: TTL,
    };
    let reply = probe.ask(Request::Several(vec![part(&fresh), part(&full)])).await;
    assert_eq!(reply, Reply::Exhausted, "acquire several, the count of one has run out");
    let reply = probe.release(&fresh, BOB).await;
    assert_eq!(reply, Reply::NotOwner, "release the other one after that");
    let before = probe.state().await;
    let reply = probe.ask(probe.activation(Stamp::MAX_ERA + 1, true)).await;
    assert_eq!(reply, Reply::Forgotten, "activate an era beyond the largest");
    let (found, wanted) = (probe.state().await.era, before.era);
    assert_eq!(found, wanted, "read after that");
}
