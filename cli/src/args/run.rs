use std::ffi::OsString;
use std::time::Duration;

use fencing::Resource;

use super::place::LockPlace;
use crate::duration;

/// Runs a command while it holds the lease of a resource.
///
/// The command finds FENCING_TOKEN and FENCING_RESOURCE in its environment. Pass the token on
/// with every write that the lease is to protect: a lease can be lost at any moment.
///
/// If the lease is not renewed, the command and all its descendants get SIGTERM a quarter of the TTL before the
/// lease ends (5 s before, if that is less), and SIGKILL just before it ends. If the lease is lost
/// at once, to `fencing release` for instance, they get SIGKILL at once. A guard does that, the parent of the command: also
/// if `fencing` itself is killed or stopped. Nothing stops the command if both are killed at the same time.
///
/// `fencing` passes INT, TERM, HUP, QUIT, USR1 and USR2 on to all of them. Processes that the command leaves in the
/// background when it ends by itself go on without the lease.
///
/// Without a terminal the command gets a process group of its own. From a terminal it stays in the terminal's group, so
/// that it can read from the terminal, and Ctrl-C and Ctrl-Z work as usual. While it is suspended its lease is not
/// renewed. Elsewhere than on Linux only the process group is stopped, or the command itself from a terminal.
///
/// Nodes that are new, or that have forgotten locks, grant nothing for a time; `fencing fleet
/// --help` says more. Every client must give the same list of nodes.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) place: LockPlace,
    /// What to lock: 1 to 255 bytes, no control characters.
    #[arg(long, value_name = "NAME")]
    pub(crate) resource: Resource,
    /// How long the lock stays closed if `fencing` dies. `fencing` renews the lease each third
    /// of this.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(crate) ttl: Duration,
    /// How long to wait for the lock; with 0s, asks once.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub(crate) wait: Duration,
    /// How long the lock stays closed at least, even if the command ends sooner: at most the TTL.
    /// Without it, a job that several machines start by their clocks runs twice, if it takes less time than these clocks
    /// differ by.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    pub(crate) at_least: Duration,
    /// The name that the lock is held under, for people: 1 to 64 bytes of printable ASCII, without
    /// spaces, quotation marks or backslashes, and without a dot at the end
    /// [env: FENCING_HOLDER] [default: host:pid].
    #[arg(long, value_name = "NAME")]
    pub(crate) holder: Option<String>,
    /// How long one node may take to answer [default: 50ms, or a quarter of a short TTL;
    /// for a database 2s, or half of a short TTL].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) node_budget: Option<Duration>,
    /// The command and its arguments.
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

const STATUS: &str = "\
Durations: 500ms, 2s, 1m, 1h

Exit status: the command's own (128 + signal if a signal ended it), or
  64   wrong usage
  69   no quorum: too few nodes granted, or the database did not answer
  75   another client held the lock until the wait ended
  76   the lease was lost, or not renewed in time: the command was stopped
  126  the command cannot be executed
  127  the command was not found
  128 + signal, if a signal came during the wait for the lock";
