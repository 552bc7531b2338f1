//! The command line's arguments: one file for each subcommand.

pub(crate) mod database;
pub(crate) mod fleet;
mod leases;
mod listen;
mod nodes;
mod open;
mod place;
mod proxy;
mod run;
mod serve;
mod watch;

use clap::{Parser, Subcommand};

pub(crate) use leases::{LeasesArgs, ReleaseArgs};
pub(crate) use listen::Listen;
pub(crate) use nodes::{ExporterArgs, NodesArgs};
pub(crate) use open::{NAMESPACE, OpenArgs, RedisPlace};
pub(crate) use place::{Chosen, LockPlace};
pub(crate) use proxy::ProxyArgs;
pub(crate) use run::RunArgs;
pub(crate) use serve::ServeArgs;
pub(crate) use watch::WatchArgs;

/// Distributed locks with fencing tokens, from the shell.
#[derive(Debug, Parser)]
#[command(name = "fencing", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) action: Action,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    Run(RunArgs),
    Nodes(NodesArgs),
    Fleet(fleet::FleetArgs),
    Leases(LeasesArgs),
    Watch(WatchArgs),
    Release(ReleaseArgs),
    Migrate(database::MigrateArgs),
    Marks(database::MarksArgs),
    Protect(database::ProtectArgs),
    Serve(ServeArgs),
    Proxy(ProxyArgs),
    Exporter(ExporterArgs),
    /// Starts the command of `fencing run` and stops it in time; not for use by hand.
    #[command(hide = true)]
    Guard,
}
