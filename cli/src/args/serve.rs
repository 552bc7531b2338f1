use std::path::PathBuf;
use std::time::Duration;

use super::listen::{Listen, some};
use super::place::LockPlace;
use crate::duration;

/// Hands out leases over HTTP, to clients in any language.
///
/// POST /leases/NAME acquires, PUT /leases/ID renews, DELETE /leases/ID releases; /openapi.yaml says
/// the rest. Only its client renews a lease; without that it ends at its TTL. The answer has the
/// token, also in the headers Fencing-Token and Fencing-Sequencer: send one of them with every write
/// that the lease is to protect.
///
/// A lease is known to the process that has handed it out. When that process ends, its locks stay closed
/// until their TTL, and cannot be renewed.
///
/// Every client that reaches the port can lock everything: put it behind your own authentication. Web pages are
/// refused (Origin, Sec-Fetch-Site).
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) place: LockPlace,
    #[command(flatten)]
    pub(crate) listen: Listen,
    /// How long a lease lasts if its client does not say.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(crate) ttl: Duration,
    /// The longest TTL that a client may ask for: a client that vanishes keeps a lock closed for that
    /// long.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::parse)]
    pub(crate) longest_ttl: Duration,
    /// The longest time that a client may ask to wait for a lock.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::parse)]
    pub(crate) longest_wait: Duration,
    /// How long one node may take to answer [default: 50ms, or a quarter of a short TTL;
    /// for a database 2s, or half of a short TTL].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) node_budget: Option<Duration>,
    /// Signs what it hands out: a file with a line ID=KEY for each key, 64 hexadecimal digits or more. The
    /// first key signs; the file is read again when it has changed. A fence that has the keys then
    /// takes only tokens that this service has issued (`fencing proxy --signing-keys`). Where clients take
    /// leases from the nodes themselves, this protects nothing.
    #[arg(long, value_name = "FILE", env = "FENCING_SIGNING_KEYS")]
    pub(crate) signing_keys: Option<PathBuf>,
    /// How many leases may be out at a time. Further requests get a 503.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = some)]
    pub(crate) leases: usize,
    /// How many requests may wait for a lock at a time, at most half of --connections: the others are for renewals and
    /// releases. Further ones get a 429.
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = some)]
    pub(crate) waiters: usize,
}

const STATUS: &str = "\
Durations: 500ms, 2s, 1m, 1h

Exit status, after SIGTERM or SIGINT:
  0    all requests have ended; the leases last until their TTL
  64   wrong usage
  71   it cannot listen
  75   some requests had not ended after --stop-within
  128 + signal, after a second signal";
