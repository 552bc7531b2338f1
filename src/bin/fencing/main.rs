//! The command line. `fencing run` holds a lease while a command runs, `fencing nodes`
//! reports how the nodes stand, `fencing fleet` starts them, brings them back and moves the
//! locks to other nodes; `fencing migrate`, `marks` and `protect` work on a database.
//!
//! `args/` says what can be asked; a file or folder for each subcommand does it. The exit
//! statuses are in `exit.rs`; `fencing run` passes on that of its command. The program needs
//! Unix: it works with process groups and signals.

#![forbid(unsafe_code)]

mod args;
mod database;
mod duration;
mod exit;
mod findings;
mod fleet;
mod lock;
mod nodes;
mod printed;
mod protected;
mod run;
mod say;
mod signals;

use std::process::ExitCode;

use clap::Parser;

use args::{Action, Args};

fn main() -> ExitCode {
    let action = match Args::try_parse() {
        Ok(args) => args.action,
        Err(error) => return usage(&error),
    };
    if matches!(action, Action::Guard) {
        return run::guard::main();
    }
    // One thread: what a release sends is on its way before any answer can be read.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say::error(format_args!("cannot start the runtime: {error}"));
            return ExitCode::from(exit::FAILED);
        }
    };
    let status = match action {
        Action::Run(run) => runtime.block_on(run::main(run)),
        Action::Nodes(nodes) => runtime.block_on(nodes::main(nodes)),
        Action::Fleet(fleet) => runtime.block_on(fleet::main(fleet)),
        Action::Migrate(migrate) => runtime.block_on(database::migrate(migrate)),
        Action::Marks(marks) => runtime.block_on(database::marks(marks)),
        Action::Protect(protect) => runtime.block_on(database::protect(protect)),
        Action::Guard => exit::USAGE,
    };
    // A look-up of a name that hangs must not hold up the end.
    runtime.shutdown_background();
    ExitCode::from(status)
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
