use std::time::Duration;

use clap::Subcommand;

use super::place::{Redis, trimmed};
use crate::duration;

/// Starts new nodes, brings nodes back, or moves the locks to other nodes.
///
/// The nodes of one list are a fleet. Their names are its identity, so every client must give
/// the same list. Clients start a fleet and bring nodes back by themselves. These commands do
/// the same while no client runs, and they do what only an operator may decide.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    pub(crate) action: FleetAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetAction {
    Init(InitArgs),
    Admit(AdmitArgs),
    Move(MoveArgs),
}

/// Starts new nodes at once.
///
/// Without this command the first client starts them, and gets no lease until each server has
/// been up for the client's TTL: to the client, a new server looks like one that was restarted
/// without its data. By this command you say that the nodes are new, so that no client can hold a
/// lock there. Never run it when nodes that were in use have restarted empty: nothing on them shows that, and a lock
/// that all of them have forgotten may be held twice then. Nodes that have granted locks since they started stay as they
/// are. You may run it again.
#[derive(Debug, clap::Args)]
#[command(after_help = INIT_STATUS)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    pub(crate) redis: Redis,
    #[command(flatten)]
    pub(crate) budget: Budget,
}

/// Brings back every node that has restarted or forgotten, with no client running.
///
/// Where too few nodes remember, every node must answer, and this command starts the fleet
/// again. Then the order of the tokens depends on the nodes' clocks; clients that are strict leave
/// that decision to you. A node that comes back grants nothing until the locks that it may have
/// forgotten have expired.
#[derive(Debug, clap::Args)]
#[command(after_help = ADMIT_STATUS)]
pub(crate) struct AdmitArgs {
    #[command(flatten)]
    pub(crate) redis: Redis,
    /// The longest TTL of any client. Where the nodes know nothing of earlier locks, they grant
    /// nothing for that long.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(crate) ttl: Duration,
    #[command(flatten)]
    pub(crate) budget: Budget,
    /// Also ends each quarantine. By this you say that no client can hold a lock any more. Needs
    /// --yes.
    #[arg(long)]
    pub(crate) now: bool,
    /// Does what --now says; without --yes, the command only explains it.
    #[arg(long, requires = "now")]
    pub(crate) yes: bool,
}

/// Moves the locks to another list of nodes: replaces nodes, adds some, drops some, or gives
/// them other names.
///
/// A majority of the old list must remember, and every node of the new list must answer.
/// From then on clients with the old list get no lease, and the leases that they hold end.
/// Clients with the new list get leases when those have ended, with larger tokens.
/// Give clients the new list when the move is done, and not before: a client that has it too
/// early, and finds that all of its nodes are new, starts a fleet of its own.
///
/// You may interrupt the command at any point and run it again, and you may run it twice at
/// once. While the move is half done, no client gets a lease.
///
/// A node's name is its URL without user and password, or the name that you write in front of
/// the URL, as in a=redis://10.0.0.5:6379. A node with a name of its own may change its address
/// without a move.
#[derive(Debug, clap::Args)]
#[command(after_help = MOVE_STATUS)]
pub(crate) struct MoveArgs {
    /// The old list, as clients have it now. Put URLs with passwords in the environment.
    #[arg(
        long,
        value_name = "URL,URL,...",
        env = "FENCING_FROM",
        hide_env_values = true,
        value_delimiter = ',',
        required = true
    )]
    from: Vec<String>,
    /// The new list, with every node that is to stay.
    #[arg(
        long,
        value_name = "URL,URL,...",
        env = "FENCING_TO",
        hide_env_values = true,
        value_delimiter = ',',
        required = true
    )]
    to: Vec<String>,
    /// What the keys on the nodes begin with.
    #[arg(long, value_name = "NS", default_value = "fencing")]
    pub(crate) namespace: String,
    /// With --lost, the longest TTL of any client: the new list grants nothing for that long.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(crate) ttl: Duration,
    #[command(flatten)]
    pub(crate) budget: Budget,
    /// Goes on although no majority of the old list answers and remembers. Needs --yes.
    #[arg(long)]
    pub(crate) lost: bool,
    /// Does what --lost says; without --yes, the command only explains it.
    #[arg(long, requires = "lost")]
    pub(crate) yes: bool,
}

impl MoveArgs {
    pub(crate) fn from(&self) -> impl Iterator<Item = &str> {
        trimmed(&self.from)
    }

    pub(crate) fn to(&self) -> impl Iterator<Item = &str> {
        trimmed(&self.to)
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Budget {
    /// How long one node may take to answer [default: 1s, or half of a short TTL].
    #[arg(long = "node-budget", value_name = "DURATION", value_parser = duration::parse)]
    given: Option<Duration>,
}

impl Budget {
    pub(crate) fn within(&self, ttl: Duration) -> Duration {
        self.given.unwrap_or(Duration::from_secs(1).min(ttl / 2))
    }
}

const INIT_STATUS: &str = "\
Exit status:
  0    a majority can grant a lock now
  64   wrong usage
  65   refused: the nodes have been in use, or belong to another fleet
  69   a node does not answer, or the nodes are quarantined";

const ADMIT_STATUS: &str = "\
Exit status:
  0    a majority is admitted; with --now: it can grant a lock now
  64   wrong usage, or --now without --yes
  69   too few nodes are admitted; with --now: too few can grant";

const MOVE_STATUS: &str = "\
Exit status:
  0    moved, now or before
  64   wrong usage, or --lost without --yes
  65   refused: a node belongs to a third fleet, or both lists are in use
  69   too few nodes answer or remember: mend that and run it again
  128 + signal, if a signal came: run it again";
