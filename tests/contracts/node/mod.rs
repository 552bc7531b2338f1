//! What each [`Node`] does for the protocol. `fencing_protocol::Store` is the reference.

mod admission;
mod era;
mod fleet;
mod grant;
mod keep;
mod probe;
mod publish;
mod several;
mod shared;

use fencing::lock::redlock::Node;
use probe::Probe;

/// Checks a blank node in about two seconds of its clock. No suite over this trait shows what a forgetful node does.
pub async fn node_contract(node: &dyn Node) {
    let probe = admission::admit(Probe::open(node).await).await;
    grant::suite(&probe).await;
    publish::suite(&probe).await;
    keep::suite(&probe).await;
    several::suite(&probe).await;
    shared::suite(&probe).await;
    grant::names_apart(&probe).await;
    fleet::suite(&probe).await;
    // Eras come late: they drop every count.
    era::suite(&probe).await;
    fleet::leave(&probe).await;
}
