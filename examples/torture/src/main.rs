//! Real servers, real clients, real faults, and at the end the whole history is checked.
//!
//! `cargo run --release -p torture -- --minutes 10` needs redis-server and redis-cli,
//! and with `--postgres` PostgreSQL.

mod args;
mod client;
mod faults;
mod list;
mod nemesis;
mod nodes;
mod proxy;
mod run;
mod storage;

use std::process::ExitCode;

use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    let args = args::Args::parse();
    if args.verbose {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    }
    let outcome = match &args.client {
        Some(orders) => client::run(orders).await.map(|()| true),
        None => run::run(&args).await,
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("torture: {error}");
            ExitCode::from(2)
        }
    }
}
