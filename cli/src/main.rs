//! The command line. `fencing run` holds a lease while a command runs, `fencing nodes`
//! reports how the nodes stand, `fencing leases` who holds what, `fencing watch` shows both again and again, and
//! `fencing release` takes a lock from its holder; `fencing fleet` starts them, brings them back and moves the
//! locks to other nodes; `fencing migrate`, `marks` and `protect` work on a database. `fencing
//! serve` is the lock service over HTTP, `fencing proxy` the fence before any HTTP service, and `fencing
//! exporter` tells Prometheus how the nodes stand.
//!
//! `args/` says what can be asked; a file or folder for each subcommand does it. The exit
//! statuses are in `exit.rs`; `fencing run` passes on that of its command. The program needs
//! Unix: it works with process groups and signals.

#![forbid(unsafe_code)]

mod args;
mod database;
mod duration;
mod exit;
mod exporter;
mod findings;
mod fleet;
mod leases;
mod listen;
mod lock;
mod nodes;
mod opening;
mod pool;
mod protected;
mod proxy;
mod release;
mod run;
mod say;
mod serve;
mod signals;
mod signing;
mod standing;
mod watch;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use args::{Action, Args};

fn main() -> ExitCode {
    let status = program();
    say::flush();
    status
}

fn program() -> ExitCode {
    let action = match Args::try_parse() {
        Ok(args) => args.action,
        Err(error) => return usage(&error),
    };
    let mut builder = match action {
        Action::Serve(_) | Action::Proxy(_) | Action::Exporter(_) => {
            logs(Some(LevelFilter::INFO));
            tokio::runtime::Builder::new_multi_thread()
        }
        Action::Watch(_) => {
            // The screen is no place for a log.
            if !std::io::stderr().is_terminal() {
                logs(None);
            }
            // Keys and signals are heard while the answers are put together.
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(1);
            builder
        }
        Action::Guard => tokio::runtime::Builder::new_current_thread(),
        // One thread: what a release sends is on its way before any answer can be read.
        _ => {
            logs(None);
            tokio::runtime::Builder::new_current_thread()
        }
    };
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say::error(format_args!("cannot start the runtime: {error}"));
            return ExitCode::from(exit::FAILED);
        }
    };
    let status = match action {
        Action::Run(run) => runtime.block_on(run::main(run)),
        Action::Nodes(nodes) => runtime.block_on(nodes::main(nodes)),
        Action::Leases(leases) => runtime.block_on(leases::main(leases)),
        Action::Watch(watch) => runtime.block_on(watch::main(watch)),
        Action::Release(release) => runtime.block_on(release::main(release)),
        Action::Fleet(fleet) => runtime.block_on(fleet::main(fleet)),
        Action::Migrate(migrate) => runtime.block_on(database::migrate(migrate)),
        Action::Marks(marks) => runtime.block_on(database::marks(marks)),
        Action::Protect(protect) => runtime.block_on(database::protect(protect)),
        Action::Serve(serve) => runtime.block_on(serve::main(serve)),
        Action::Proxy(proxy) => runtime.block_on(proxy::main(proxy)),
        Action::Exporter(exporter) => runtime.block_on(exporter::main(exporter)),
        Action::Guard => runtime.block_on(run::guard::main()),
    };
    // A look-up of a name that hangs must not hold up the end.
    runtime.shutdown_background();
    ExitCode::from(status)
}

/// Writes the log on stderr: what `RUST_LOG` says, as in `fencing=debug,warn`, or else down to this level.
fn logs(level: Option<LevelFilter>) {
    let asked = std::env::var("RUST_LOG").ok().filter(|asked| !asked.is_empty());
    let targets = match asked.as_deref().map(str::parse::<Targets>) {
        Some(Ok(targets)) => Some(targets),
        Some(Err(error)) => {
            say::error(format_args!("warning: RUST_LOG is not followed: {error}"));
            None
        }
        None => None,
    };
    let Some(targets) = targets.or(level.map(|level| Targets::new().with_default(level))) else {
        return;
    };
    let log = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE);
    log.with_writer(|| say::Log).with_ansi(false).finish().with(targets).init();
}

fn usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        say::raw(&say::without_passwords(&error.to_string()));
        ExitCode::from(exit::USAGE)
    } else {
        say::out(error);
        ExitCode::SUCCESS
    }
}
