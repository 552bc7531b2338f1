//! Real servers, real clients, real faults, and at the end the whole history is checked.
//!
//! It starts the storage service beside it, redis-servers, and with `--postgres` PostgreSQL:
//!
//! ```sh
//! cargo build --release -p torture -p storage_service
//! target/release/torture --minutes 10 --postgres
//! ```

mod args;
mod client;
mod engine;
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
