//! Real servers, real clients, real faults, and at the end the whole history is checked.
//!
//! `cargo run --release --example torture -- --minutes 10` needs redis-server and redis-cli,
//! and with `--postgres` PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod args;
mod client;
mod faults;
#[path = "../../tests/support/history/mod.rs"]
mod history;
mod list;
mod nemesis;
mod nodes;
#[allow(dead_code, reason = "tests use the rest")]
#[path = "../../tests/support/postgres.rs"]
mod postgres;
mod proxy;
#[allow(dead_code, reason = "tests use the rest")]
#[path = "../../tests/support/redis.rs"]
mod redis;
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
