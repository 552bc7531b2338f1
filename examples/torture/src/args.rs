use clap::Parser;

use crate::engine::Engine;
use crate::faults::Fault;

/// Tortures locks and fence with real processes, and checks the history.
///
/// It starts servers of its own and is at them as well.
/// The example storage_service must have been built beside it.
#[derive(Parser, Clone)]
#[command(version)]
pub struct Args {
    /// For how long
    #[arg(long, default_value_t = 1.0)]
    pub minutes: f64,
    /// What the faults are drawn from [default: the time]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Only these faults, separated by commas [default: all that can be done]
    #[arg(long, value_delimiter = ',', value_enum)]
    pub faults: Vec<Fault>,
    /// All but these, separated by commas
    #[arg(long, value_delimiter = ',', value_enum)]
    pub without: Vec<Fault>,
    /// Three members of this in place of Redis nodes; it must be installed
    #[arg(long, value_enum)]
    pub engine: Option<Engine>,
    /// How many client processes
    #[arg(long, default_value_t = 6)]
    pub clients: u32,
    /// Also store in a PostgreSQL of its own, which must be installed
    #[arg(long)]
    pub postgres: bool,
    /// Switch the fence off, to see what happens
    #[arg(long)]
    pub unguarded: bool,
    /// Say on stderr what the clients see
    #[arg(long)]
    pub verbose: bool,
    /// One of the clients: it is told the rest as JSON
    #[arg(long, hide = true)]
    pub client: Option<String>,
}
