use fencing_protocol::{Nonce, Owner, Reply, Resource, Stamp};

use super::probe::{ALICE, BOB, Probe};
use crate::resource;

pub async fn suite(probe: &Probe) {
    guarded(probe).await;
    raises(probe).await;
    raises_the_era(probe).await;
    runs_out(probe).await
}

/// Publishes for the holder, which must succeed.
async fn published(probe: &Probe, resource: &Resource, stamp: Stamp) {
    let reply = probe.publish(resource, ALICE, probe.nonce, stamp).await;
    assert_eq!(reply, Reply::Published, "publish {stamp:?}");
}

async fn refused(probe: &Probe, resource: &Resource, (owner, nonce): (Owner, Nonce), case: &str) {
    let stamp = Stamp { era: probe.state().await.era, count: 500 };
    let reply = probe.publish(resource, owner, nonce, stamp).await;
    assert_eq!(reply, Reply::NotOwner, "publish {case}");
}

async fn guarded(probe: &Probe) {
    let resource = resource("publish");
    let (alice, bob) = ((ALICE, probe.nonce), (BOB, probe.nonce));
    let elsewhere = (ALICE, Nonce(0xbad));
    refused(probe, &resource, alice, "without a lock").await;
    probe.granted(&resource, ALICE).await;
    refused(probe, &resource, bob, "for another owner").await;
    refused(probe, &resource, elsewhere, "with another nonce").await;
    probe.free(&resource, ALICE).await;
    refused(probe, &resource, alice, "after the release").await;
    let stamp = probe.granted(&resource, BOB).await;
    refused(probe, &resource, alice, "after another came").await;
    assert_eq!(stamp.count, 2, "acquire after refused publishes");
    probe.free(&resource, BOB).await
}

async fn raises(probe: &Probe) {
    let (resource, era) = (resource("raise"), probe.state().await.era);
    probe.granted(&resource, ALICE).await;
    for count in [33, 33] {
        published(probe, &resource, Stamp { era, count }).await;
    }
    // A larger count shows that another owner was there: a repeated request locked again.
    for stamp in [Stamp { era, count: 20 }, Stamp { era: era - 1, count: 900 }] {
        let reply = probe.publish(&resource, ALICE, probe.nonce, stamp).await;
        assert_eq!(reply, Reply::NotOwner, "publish {stamp:?} below");
    }
    probe.free(&resource, ALICE).await;
    let stamp = probe.granted(&resource, BOB).await;
    let wanted = Stamp { era, count: 34 };
    assert_eq!(stamp, wanted, "acquire after 33, 20 and an older era");
    probe.free(&resource, BOB).await
}

async fn raises_the_era(probe: &Probe) {
    let (raised, other) = (resource("raise/era"), resource("raise/other"));
    probe.granted(&other, BOB).await;
    let before = probe.state().await;
    probe.granted(&raised, ALICE).await;
    let stamp = Stamp { era: before.era + 5, count: 7 };
    published(probe, &raised, stamp).await;
    let after = probe.state().await;
    let found = (after.era, after.reserved, after.nonce);
    let wanted = (before.era + 5, before.reserved, before.nonce);
    assert_eq!(found, wanted, "read after a larger era was published");
    probe.free(&raised, ALICE).await;
    let found = probe.granted(&raised, ALICE).await;
    let wanted = Stamp { count: 8, ..stamp };
    assert_eq!(found, wanted, "acquire in the era that was published");
    probe.free(&raised, ALICE).await;
    probe.held(&other, "through a new era").await;
    probe.free(&other, BOB).await;
    let found = probe.granted(&other, BOB).await;
    let wanted = Stamp { count: 1, ..stamp };
    assert_eq!(found, wanted, "acquire another resource in a new era");
    probe.free(&other, BOB).await
}

async fn runs_out(probe: &Probe) {
    let (resource, era) = (resource("exhausted"), probe.state().await.era);
    probe.granted(&resource, ALICE).await;
    published(probe, &resource, Stamp { era, count: Stamp::MAX_COUNT - 1 }).await;
    probe.free(&resource, ALICE).await;
    let last = probe.granted(&resource, ALICE).await;
    assert_eq!(last.count, Stamp::MAX_COUNT, "the last count");
    probe.free(&resource, ALICE).await;
    let reply = probe.acquire(&resource, ALICE).await;
    assert_eq!(reply, Reply::Exhausted, "acquire after the last count");
}
