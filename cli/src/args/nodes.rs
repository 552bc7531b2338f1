use std::net::SocketAddr;
use std::time::Duration;

use super::place::Redis;
use crate::duration;

/// Reports the state of the nodes, and changes nothing on them.
///
/// Prints one line for each node that answers, and below them each problem once, with the nodes that have it. A
/// node that is not admitted has forgotten its locks; the next client that wants a lock brings it back, or
/// `fencing fleet admit` does. A node that is quarantined grants nothing until the locks that it may have forgotten
/// have expired.
#[derive(Debug, clap::Args)]
#[command(after_help = NODES_STATUS)]
pub(crate) struct NodesArgs {
    #[command(flatten)]
    pub(crate) redis: Redis,
    /// How long one node may take to answer.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    pub(crate) node_budget: Duration,
    /// Prints a JSON array with an object for each node.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Exports the state of the nodes to Prometheus: GET /metrics asks each of them, and changes nothing there.
///
/// Services that embed the library, `fencing serve` and `fencing proxy` have metrics of their own: how many
/// leases, refusals and waiters they have. This one has what only the nodes know.
#[derive(Debug, clap::Args)]
#[command(after_help = EXPORTER_STATUS)]
pub(crate) struct ExporterArgs {
    #[command(flatten)]
    pub(crate) redis: Redis,
    /// Where Prometheus asks: /metrics, and /livez and /readyz. Port 0 takes a free one, and the first line
    /// of the output says which.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7435")]
    pub(crate) listen: SocketAddr,
    /// How long one node may take to answer.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    pub(crate) node_budget: Duration,
}

const NODES_STATUS: &str = "\
Exit status:
  0    a majority can grant a lock now
  64   wrong usage
  69   it cannot, or one server is in the list under two names";

const EXPORTER_STATUS: &str = "\
Exit status:
  0    after SIGTERM or SIGINT
  64   wrong usage
  71   it cannot listen";
