use super::probe::*;
use crate::names;

/// Checks that each name has a lock and a count of its own.
pub async fn suite(probe: &Probe) {
    let (stamp, names) = (probe.stamps().await, names());
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
