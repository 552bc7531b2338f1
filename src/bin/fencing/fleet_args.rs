use std::time::Duration;

use clap::Subcommand;

use crate::args::{Redis, trimmed};
use crate::duration;

/// Starts new nodes, brings nodes back, or moves the locks to other nodes.
///
/// The nodes of one list are a fleet: their names are its identity, and every client gives
/// the same list. Clients start a fleet and bring nodes back by themselves. These commands do
/// it with no client running, and do what needs an operator's word.
#[derive(Debug, clap::Args)]
pub(crate) struct Fleet {
    #[command(subcommand)]
    pub(crate) action: FleetAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetAction {
    Init(Init),
    Admit(Admit),
    Move(Move),
}

/// Starts new nodes at once.
///
/// Without it the first client starts them, and gets no lease until each server has been up
/// for the client's TTL: to the client, a new server looks like one that was restarted
/// without its data. By this command you say that the nodes are new, and that no lock of
/// theirs can be held by anybody. Nodes that have granted locks stay as they are. It may be
/// run again.
#[derive(Debug, clap::Args)]
#[command(after_help = INIT_STATUS)]
pub(crate) struct Init {
    #[command(flatten)]
    pub(crate) redis: Redis,
    #[command(flatten)]
    pub(crate) budget: Budget,
}

/// Brings back every node that has restarted or forgotten, with no client running.
///
/// Where too few nodes remember, every node must answer, and the fleet is started anew. Then
/// the order of the tokens rests on the nodes' clocks: clients that are strict leave that to
/// you. A node that comes back grants nothing until the locks that it may have forgotten
/// have expired.
#[derive(Debug, clap::Args)]
#[command(after_help = ADMIT_STATUS)]
pub(crate) struct Admit {
    #[command(flatten)]
    pub(crate) redis: Redis,
    /// The longest TTL of any client. Where nothing is written of the locks, nodes grant
    /// nothing for that long.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(crate) ttl: Duration,
    #[command(flatten)]
    pub(crate) budget: Budget,
    /// Also ends each quarantine. You say that no lock can be held any more; takes --yes.
    #[arg(long)]
    pub(crate) now: bool,
    /// Does what --now says; without this, it only explains it.
    #[arg(long, requires = "now")]
    pub(crate) yes: bool,
}

/// Moves the locks to another list of nodes: replaces nodes, adds some, drops some, or gives
/// them other names.
///
/// A majority of the old list must remember, and every node of the new list must answer.
/// From then on clients with the old list get no lease, and the leases that they hold end.
/// Clients with the new list get leases when those have ended, with larger tokens.
/// Give clients the new list when the move is done, and not before: one that has it too early,
/// and finds all of its nodes new, starts a fleet of its own.
///
/// It can be interrupted at any point and run again, and two can run it at once. While it is
/// half done, nobody gets a lease.
///
/// A node's name is its URL without user and password, or what stands in front of it, as in
/// a=redis://10.0.0.5:6379. A node with a name of its own may change its address without
/// a move.
#[derive(Debug, clap::Args)]
#[command(after_help = MOVE_STATUS)]
pub(crate) struct Move {
    /// The old list, as clients have it now. URLs with passwords are better in the
    /// environment.
    #[arg(
        long,
        value_name = "URL,URL,...",
        env = "FENCING_FROM",
        hide_env_values = true,
        value_delimiter = ',',
        required = true
    )]
    from: Vec<String>,
    /// The new list.
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
    /// Goes on although no majority of the old list answers and remembers; takes --yes.
    #[arg(long)]
    pub(crate) lost: bool,
    /// Does what --lost says; without this, it only explains it.
    #[arg(long, requires = "lost")]
    pub(crate) yes: bool,
}

impl Move {
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
  69   it is not";

const MOVE_STATUS: &str = "\
Exit status:
  0    moved, now or before
  64   wrong usage, or --lost without --yes
  65   refused: a node belongs to a third fleet, or both lists are in use
  69   too few nodes answer or remember: mend that and run it again
  128 + signal, if a signal came: run it again";
