use fencing_protocol::{Resource, Stamp};

use super::probe::{ALICE, Probe};
use crate::testing::{Breach, NAMES, Rule, long, resource};

/// Checks that each name has a lock and a count of its own.
pub(super) async fn suite(probe: &Probe) -> Result<(), Breach> {
    let era = probe.state().await?.era;
    let long = [long(Resource::MAX_BYTES), long(Resource::MAX_BYTES - 1)];
    let names = NAMES.into_iter().chain(long.iter().map(String::as_str));
    let names: Vec<Resource> = names.map(resource).collect::<Result<_, _>>()?;
    for (name, count) in names.iter().zip(1..) {
        let stamp = probe.granted(Rule::NamesApart, name, ALICE).await?;
        let case = format!("acquire {name} for the first time");
        Rule::NamesApart.same(case, &stamp, &Stamp { era, count: 1 })?;
        let published = Stamp { era, count: 100 * count };
        probe.publish(name, ALICE, probe.nonce, published).await?;
    }
    for (name, count) in names.iter().zip(1..) {
        probe.held(Rule::NamesApart, name, "with all the others").await?;
        probe.free(name, ALICE).await?;
        let stamp = probe.granted(Rule::NamesApart, name, ALICE).await?;
        let case = format!("acquire {name} again");
        Rule::NamesApart.same(case, &stamp, &Stamp { era, count: 100 * count + 1 })?;
        probe.free(name, ALICE).await?;
    }
    Ok(())
}
