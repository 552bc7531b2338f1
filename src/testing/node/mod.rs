mod admission;
mod era;
mod fleet;
mod grant;
mod keep;
mod names;
mod probe;
mod publish;
mod several;
mod shared;

use super::Breach;
use crate::lock::redlock::Node;
use probe::Probe;

/// Checks that a blank node keeps its half of the protocol: see
/// [`Request`](fencing_protocol::Request), and [`Store`](fencing_protocol::Store) for the
/// reference.
///
/// It takes about two seconds of the node's clock. No suite over this trait can show what a
/// node does when it forgets.
///
/// ```
/// use fencing::lock::redlock::MemoryNode;
/// use fencing::testing::{Breach, node_contract};
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Breach> {
///     node_contract(&MemoryNode::new("mine")).await
/// }
/// ```
///
/// # Errors
/// Returns the first [`Breach`].
pub async fn node_contract(node: &dyn Node) -> Result<(), Breach> {
    let probe = admission::admit(Probe::open(node).await?).await?;
    grant::suite(&probe).await?;
    publish::suite(&probe).await?;
    keep::suite(&probe).await?;
    several::suite(&probe).await?;
    shared::suite(&probe).await?;
    names::suite(&probe).await?;
    fleet::suite(&probe).await?;
    // Eras come late: they drop every count.
    era::suite(&probe).await?;
    fleet::leave(&probe).await
}
