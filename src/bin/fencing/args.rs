use std::ffi::OsString;
use std::time::Duration;

use clap::{Parser, Subcommand};
use fencing::Resource;

use crate::database_args::{Marks, Migrate, ProtectTable};
use crate::duration;
use crate::fleet_args::Fleet;

/// Distributed locks with fencing tokens, from the shell.
#[derive(Debug, Parser)]
#[command(name = "fencing", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) action: Action,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    Run(Run),
    Nodes(Nodes),
    Fleet(Fleet),
    Migrate(Migrate),
    Marks(Marks),
    Protect(ProtectTable),
    /// Stops the command if `fencing run` is killed; not for use by hand.
    #[command(hide = true)]
    Guard,
}

/// Runs a command while it holds the lease of a resource.
///
/// The command finds FENCING_TOKEN and FENCING_RESOURCE in its environment. Hand the
/// token to every write that the lease is to protect: a lease can be lost at any moment.
///
/// The command gets a process group of its own, unless stdin is a terminal: then it stays
/// in the terminal's group, so that it can read there and that Ctrl-C and Ctrl-Z work as
/// ever. When the lease is lost, the group is stopped, or there the command and all that
/// descend from it.
/// INT, TERM, HUP, QUIT, USR1 and USR2 are passed on. If `fencing` itself is killed, a
/// guard stops the command. What the command leaves running in the background when it
/// ends by itself goes on without the lease.
///
/// Nodes that are new, or that have forgotten locks, grant nothing for a time; `fencing fleet`
/// says more. Every client must give the same list of nodes.
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_STATUS)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) place: Place,
    /// What to lock: 1 to 255 bytes, no control characters.
    #[arg(long, value_name = "NAME", value_parser = resource)]
    pub(crate) resource: Resource,
    /// How long the lease outlives `fencing` if it dies; it is renewed each third of this.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(crate) ttl: Duration,
    /// How long to wait for the lock; 0s asks once.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub(crate) wait: Duration,
    /// How long one node may take to answer [default: 50ms, or a quarter of a short TTL;
    /// a database: 2s, or half of a short TTL].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) node_budget: Option<Duration>,
    /// The command and its arguments.
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Tells how the nodes stand, and changes nothing on them.
///
/// One line per node. A node that is not admitted has forgotten its locks; the next client
/// that wants a lock brings it back, or `fencing fleet admit` does. A node that is quarantined
/// grants nothing until the locks that it may have forgotten have expired.
#[derive(Debug, clap::Args)]
#[command(after_help = NODES_STATUS)]
pub(crate) struct Nodes {
    #[command(flatten)]
    pub(crate) redis: Redis,
    /// How long one node may take to answer.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    pub(crate) node_budget: Duration,
    /// Prints a JSON array with an object per node.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where the locks are: on Redis nodes or in one database.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// The nodes: independent masters. Others can read a command line, so URLs with
    /// passwords are better in the environment [env: FENCING_REDIS].
    #[arg(long, value_name = "URL,URL,...", value_delimiter = ',', conflicts_with = "database")]
    redis: Vec<String>,
    /// Instead of nodes, a database: sqlite:PATH, postgres://... or mysql://... What its
    /// tables lack is created [env: FENCING_DATABASE].
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// What the keys on the nodes begin with.
    #[arg(long, value_name = "NS", default_value = "fencing")]
    pub(crate) namespace: String,
}

/// One of the two.
pub(crate) enum Chosen {
    Redis(Vec<String>),
    Database(String),
}

impl Place {
    /// What the command line says, or else the environment.
    pub(crate) fn chosen(&self) -> Result<Chosen, String> {
        let set = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
        let split = |urls: String| urls.split(',').map(str::to_owned).collect();
        match (&self.redis[..], &self.database) {
            ([], None) => match (set("FENCING_REDIS"), set("FENCING_DATABASE")) {
                (Some(urls), None) => Ok(Chosen::Redis(split(urls))),
                (None, Some(url)) => Ok(Chosen::Database(url)),
                (None, None) => Err("where are the locks? Give --redis or --database, or set \
                    FENCING_REDIS or FENCING_DATABASE"
                    .into()),
                (Some(_), Some(_)) => {
                    Err("both FENCING_REDIS and FENCING_DATABASE are set: give --redis or \
                         --database"
                        .into())
                }
            },
            ([], Some(url)) => Ok(Chosen::Database(url.clone())),
            (urls, _) => Ok(Chosen::Redis(urls.to_vec())),
        }
    }
}

/// The URLs, without what is left of a comma too many.
pub(crate) fn trimmed(urls: &[String]) -> impl Iterator<Item = &str> {
    urls.iter().map(|url| url.trim()).filter(|url| !url.is_empty())
}

#[derive(Debug, clap::Args)]
pub(crate) struct Redis {
    /// The nodes: independent masters. Others can read a command line, so URLs with
    /// passwords are better in the environment.
    #[arg(
        long = "redis",
        value_name = "URL,URL,...",
        env = "FENCING_REDIS",
        hide_env_values = true,
        value_delimiter = ',',
        required = true
    )]
    urls: Vec<String>,
    /// What the keys on the nodes begin with.
    #[arg(long, value_name = "NS", default_value = "fencing")]
    pub(crate) namespace: String,
}

impl Redis {
    pub(crate) fn urls(&self) -> impl Iterator<Item = &str> {
        trimmed(&self.urls)
    }
}

pub(crate) fn resource(name: &str) -> Result<Resource, String> {
    Resource::new(name).map_err(|error| error.to_string())
}

const RUN_STATUS: &str = "\
Durations: 500ms, 2s, 1m, 1h

Exit status: the command's own (128 + signal if a signal ended it), or
  64   wrong usage
  69   no quorum: too few nodes answered, or the database did not
  75   another held the lock until the wait ended
  76   the lease was lost: the command got SIGTERM, and SIGKILL 5 s later
  126  the command can't be executed
  127  the command was not found
  128 + signal, if a signal came while waiting for the lock";

const NODES_STATUS: &str = "\
Exit status:
  0    a majority can grant a lock now
  64   wrong usage
  69   it can not, or one server stands in the list under two names";
