use fencing_protocol::Stamp;

use super::probe::{ALICE, Probe};
use crate::names;

/// Checks that each name has a lock and a count of its own.
pub async fn suite(probe: &Probe) {
    let era = probe.state().await.era;
    let names = names();
    for (name, count) in names.iter().zip(1..) {
        let stamp = probe.granted(name, ALICE).await;
        let case = format!("acquire {name} for the first time");
        assert_eq!(stamp, Stamp { era, count: 1 }, "{case}");
        let published = Stamp { era, count: 100 * count };
        probe.publish(name, ALICE, probe.nonce, published).await;
    }
    for (name, count) in names.iter().zip(1..) {
        probe.held(name, "with all the others").await;
        probe.free(name, ALICE).await;
        let stamp = probe.granted(name, ALICE).await;
        let case = format!("acquire {name} again");
        assert_eq!(stamp, Stamp { era, count: 100 * count + 1 }, "{case}");
        probe.free(name, ALICE).await;
    }
}
