use std::time::Duration;

use super::common::Redis;
use crate::duration;

/// Reports how the nodes stand, and changes nothing on them.
///
/// Prints one line for each node that answers, and below them each problem once, with the nodes that have it. A
/// node that is not admitted has forgotten its locks; the next client that wants a lock brings it back, or
/// `fencing fleet admit` does. A node that is quarantined grants nothing until the locks that it may have forgotten
/// have expired.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct Nodes {
    #[command(flatten)]
    pub(crate) redis: Redis,
    /// How long one node may take to answer.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    pub(crate) node_budget: Duration,
    /// Prints a JSON array with an object for each node.
    #[arg(long)]
    pub(crate) json: bool,
}

const STATUS: &str = "\
Exit status:
  0    a majority can grant a lock now
  64   wrong usage
  69   it cannot, or one server stands in the list under two names";
