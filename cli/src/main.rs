//! The command line. A file or folder for each subcommand has its options and does it; `docs/architecture.md`
//! lists them. The program needs Unix: it works with process groups and signals.

mod database;
mod doctor;
mod duration;
mod exit;
mod exporter;
mod findings;
mod fleet;
mod leases;
mod listen;
mod lock_service;
mod marks;
mod nodes;
mod pool;
mod proxy;
mod raise;
mod release;
mod run;
mod say;
mod serve;
mod signals;
mod signing;
mod watch;
mod watched_files;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches, Parser};
use tokio::runtime::Builder;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use exit::{Failure, Status};

/// Distributed locks with fencing tokens, from the shell.
#[derive(Debug, Parser)]
#[command(name = "fencing", version)]
enum Action {
    Run(run::RunArgs),
    Leases(leases::LeasesArgs),
    Release(release::ReleaseArgs),
    Watch(watch::WatchArgs),
    Doctor(doctor::DoctorArgs),
    Nodes(nodes::NodesArgs),
    #[command(subcommand)]
    Fleet(fleet::FleetAction),
    #[command(subcommand)]
    Db(database::DatabaseAction),
    Raise(raise::RaiseArgs),
    Serve(serve::ServeArgs),
    Proxy(proxy::ProxyArgs),
    Exporter(exporter::ExporterArgs),
    /// Starts the command of `fencing run` and stops it in time; not for use by hand.
    #[command(hide = true)]
    Guard,
}

fn main() -> ExitCode {
    let lost = |error| Failure::new(Status::NOT_WRITTEN, format_args!("the output could not be written: {error}"));
    let ended = program().and_then(|status| say::NOT_WRITTEN.get().map_or(Ok(status), |error| Err(lost(error))));
    let status = ended.unwrap_or_else(|Failure { status, message }| {
        say::error(say::without_passwords(&message));
        status
    });
    say::flush();
    ExitCode::from(status.0)
}

fn program() -> Result<Status, Failure> {
    let matches = with_statuses(Action::command()).try_get_matches();
    let action = match matches.and_then(|matches| Action::from_arg_matches(&matches)) {
        Ok(action) => action,
        Err(error) => return Ok(explain(error)),
    };
    let is_server = matches!(action, Action::Serve(_) | Action::Proxy(_) | Action::Exporter(_));
    match action {
        // The screen is no place for a log.
        Action::Watch(_) if std::io::stderr().is_terminal() => {}
        Action::Guard => {}
        Action::Doctor(_) => logs(Some(LevelFilter::WARN)),
        _ => logs(is_server.then_some(LevelFilter::INFO)),
    }
    // A terminal that takes nothing must not hold up the end of the view.
    let mut builder = match is_server || matches!(action, Action::Watch(_)) {
        true => Builder::new_multi_thread(),
        // What a release sends is on its way before any answer can be read.
        false => Builder::new_current_thread(),
    };
    let failed = |error| Failure::failed(format_args!("cannot start the runtime: {error}"));
    let runtime = builder.enable_all().build().map_err(failed)?;
    let status = runtime.block_on(dispatch(action));
    // A look-up of a name that hangs must not hold up the end.
    runtime.shutdown_background();
    status
}

/// Prints the help that was asked for, or why the command line is wrong.
fn explain(mut error: clap::Error) -> Status {
    if !error.use_stderr() {
        say::out(error);
        return Status::DONE;
    }
    let is_stray = hide_stray_argument(&mut error);
    say::raw(say::without_passwords(&error.to_string()));
    if is_stray {
        say::error("put `--` before a command, and give a URL with its option, in quotes: --lock 'URL'");
    }
    let missing = error.kind() == ErrorKind::MissingRequiredArgument;
    if missing && std::env::var_os("FENCING_LOCK").is_some() {
        say::error(lock_service::NOT_FOR_LOCK);
    }
    Status::USAGE
}

async fn dispatch(action: Action) -> Result<Status, Failure> {
    match action {
        Action::Run(args) => run::main(args).await,
        Action::Nodes(args) => nodes::main(args).await,
        Action::Leases(args) => leases::main(args).await,
        Action::Watch(args) => watch::main(args).await,
        Action::Release(args) => release::main(args).await,
        Action::Raise(args) => raise::main(args).await,
        Action::Fleet(action) => fleet::main(action).await,
        Action::Db(action) => database::main(action).await,
        Action::Doctor(args) => doctor::main(args).await,
        Action::Serve(args) => serve::main(args).await,
        Action::Proxy(args) => proxy::main(args).await,
        Action::Exporter(args) => exporter::main(args).await,
        Action::Guard => run::guard::main().await,
    }
}

/// Hides an argument that belongs to no option: it may be what a shell has cut off from a URL with a password.
fn hide_stray_argument(error: &mut clap::Error) -> bool {
    let is_stray = |argument: &_| matches!(argument, ContextValue::String(it) if !it.starts_with('-'));
    let is_stray =
        error.kind() == ErrorKind::UnknownArgument && error.get(ContextKind::InvalidArg).is_some_and(is_stray);
    if is_stray {
        error.insert(ContextKind::InvalidArg, ContextValue::String("***".into()));
    }
    is_stray
}

fn with_statuses(command: Command) -> Command {
    command.after_help(exit::STATUS_HELP).mut_subcommands(with_statuses)
}

/// Writes the log on stderr: what `RUST_LOG` says, as in `fencing=debug,warn`, or else down to this level.
fn logs(level: Option<LevelFilter>) {
    let asked = std::env::var("RUST_LOG").ok().filter(|asked| !asked.is_empty());
    let ignored = |error: &_| say::error(format_args!("warning: RUST_LOG is ignored: {error}"));
    let targets = asked.and_then(|asked| asked.parse::<Targets>().inspect_err(ignored).ok());
    let Some(targets) = targets.or(level.map(|level| Targets::new().with_default(level))) else { return };
    let log = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE);
    log.with_writer(|| say::Log).with_ansi(false).finish().with(targets).init();
}
