use std::time::Duration;

use fencing::{Resource, Token};

use super::place::LockPlace;
use crate::duration;

/// Lists the leases that are held: of what, by whom, since when, for how long still, and with which token.
///
/// The name and the time come from the holder, by its own clock: `host:pid`, or the name that it was given. On nodes the
/// command scans the keys in small steps, and shows how many nodes have the lock. A lock on less than a majority, where all
/// nodes have answered, is what is left of an attempt or of a lease that ends. Where some do not answer, or are quarantined
/// because they may have forgotten locks, such a lock is perhaps held (in JSON "held" is null). A token that is not shown is
/// from before the present era, or the nodes do not agree on it. The command changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = LEASES_STATUS)]
pub(crate) struct LeasesArgs {
    #[command(flatten)]
    pub(crate) place: LockPlace,
    /// Lists only resources that match: * is any text, ? any character.
    #[arg(long, value_name = "GLOB", default_value = "*")]
    pub(crate) resource: String,
    /// How long one node may take to answer each time.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    pub(crate) node_budget: Duration,
    /// Prints a JSON object for each lease, one in each line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Takes a lock from its holder by force, so that others can have it.
///
/// It cannot stop the holder. The holder goes on until its next renewal, which fails, or, in a database, until its
/// lease ends. Until then two clients believe that they hold the lock. Only a storage that compares tokens refuses
/// the older one, once it has seen the newer. If the lock is shared, all who share it lose it. With --token
/// only the lease that you have seen can lose it; without it, the client that holds the lock when the command
/// runs loses it. It does not wait for a lock-delay, or for
/// the rest of a shortest hold: others can have the lock at once.
///
/// Nodes write it down in the sorted set {NAMESPACE}:audit, and a database in the table fencing_audit.
#[derive(Debug, clap::Args)]
#[command(after_help = RELEASE_STATUS)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    pub(crate) place: LockPlace,
    /// What is locked: one name, no pattern.
    #[arg(long, value_name = "NAME")]
    pub(crate) resource: Resource,
    /// How long one node may take to answer each time.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    pub(crate) node_budget: Duration,
    /// The token of the lease to end: without --yes the command says which it is. If the lock has another one by
    /// now, nothing is done. A lock on less than a majority of the nodes has no token. Where the command shows
    /// "a token below N", give any token below N: which of the leases before N it is, is not known any more.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<Token>,
    /// Does it. Without this, the command only says what it would do.
    #[arg(long)]
    pub(crate) yes: bool,
}

const LEASES_STATUS: &str = "\
Exit status:
  0    the list is complete for every lock that a majority holds
  64   wrong usage
  69   too few nodes answered, or the database did not";

const RELEASE_STATUS: &str = "\
Exit status:
  0    the holders that were seen have lost it, or it was free before
  64   wrong usage, or --yes is missing
  65   the lock has another token, or another client has got it meanwhile, and keeps it
  69   too few nodes answered, or the database did not: it says whether something was released";
