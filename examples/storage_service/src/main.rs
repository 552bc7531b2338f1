//! A storage service behind the whole loop: leases, tokens, and a fence.
//!
//! `cargo run -p storage_service` needs no server: five lock nodes in
//! this process, and SQLite in memory. `--play` plays the stale write once.

mod app;
mod args;
mod caller;
mod error;
mod files;
mod issued;
mod leases;
mod locks;
mod objects;
mod page;
mod play;
mod simulator;
mod store;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tokio::net::TcpListener;

use app::App;
use args::{Args, Place};
use page::Page;

/// How long requests in flight may take after SIGTERM.
const LAST: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let level = if args.play { tracing::Level::ERROR } else { tracing::Level::INFO };
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    match run(args).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("storage_service: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    if args.play && args.lock == Place::Elsewhere {
        return Err("--play needs leases, and with --lock elsewhere there are none".into());
    }
    let listener = TcpListener::bind(args.address()).await;
    let listener = listener.map_err(|error| format!("cannot listen on {}: {error}", args.address()))?;
    let address = listener.local_addr()?;
    let app = Arc::new(App::new(&args).await?);
    println!("storage_service on http://{address}");
    let page = if args.play { None } else { Page::start(&app, address)? };
    if page.is_some() {
        println!("  see the stale write: open http://{address} in a browser");
    }
    println!("  locks: {}", args.locks());
    println!("  files: {}", args.files());
    if args.unguarded {
        println!("  WARNING: --unguarded, the fence is OFF: stale writes are stored");
    }
    println!();
    let server = tokio::spawn(app::serve(listener, Arc::clone(&app), page));
    if args.play {
        let expected = play::play(address, !args.unguarded).await?;
        app.stop.cancel();
        server.await??;
        return Ok(if expected { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    print!("{}", args.commands(address));
    terminated().await?;
    println!("stopping: requests in flight finish");
    app.stop.cancel();
    match tokio::time::timeout(LAST, server).await {
        Ok(ended) => ended??,
        Err(_) => eprintln!("some requests did not finish within {LAST:?}"),
    }
    app.leases.release_all().await;
    Ok(ExitCode::SUCCESS)
}

async fn terminated() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        interrupted = tokio::signal::ctrl_c() => interrupted,
    }
}
