//! The command line's arguments: one file for each subcommand.

mod common;
pub(crate) mod database;
mod exporter;
pub(crate) mod fleet;
mod leases;
mod listen;
mod nodes;
mod open;
mod proxy;
mod run;
mod serve;
mod watch;

use clap::{Parser, Subcommand};

pub(crate) use common::trimmed;
pub(crate) use exporter::Exporter;
pub(crate) use leases::{Leases, Release};
pub(crate) use listen::Listen;
pub(crate) use nodes::Nodes;
pub(crate) use open::{NAMESPACE, Open, RedisPlace};
pub(crate) use proxy::Proxy;
pub(crate) use run::{Chosen, Place, Run};
pub(crate) use serve::Serve;
pub(crate) use watch::Watch;

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
    Fleet(fleet::Fleet),
    Leases(Leases),
    Watch(Watch),
    Release(Release),
    Migrate(database::Migrate),
    Marks(database::Marks),
    Protect(database::ProtectTable),
    Serve(Serve),
    Proxy(Proxy),
    Exporter(Exporter),
    /// Starts the command of `fencing run` and stops it in time; not for use by hand.
    #[command(hide = true)]
    Guard,
}
