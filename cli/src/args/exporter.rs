use std::net::SocketAddr;
use std::time::Duration;

use super::common::Redis;
use crate::duration;

/// Tells Prometheus how the nodes stand: GET /metrics asks each of them, and changes nothing there.
///
/// Services that embed the library, `fencing serve` and `fencing proxy` have metrics of their own: how many
/// leases, refusals and waiters they have. This one has what only the nodes know.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct Exporter {
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

const STATUS: &str = "\
Exit status:
  0    after SIGTERM or SIGINT
  64   wrong usage
  71   it cannot listen";
