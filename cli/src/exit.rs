//! The exit statuses besides the command's own; those of `sysexits.h` if one fits.

use std::error::Error;
use std::fmt::Display;

use crate::say;

pub(crate) const USAGE: u8 = 64;
pub(crate) const REFUSED: u8 = 65;
pub(crate) const UNAVAILABLE: u8 = 69;
pub(crate) const FAILED: u8 = 71;
pub(crate) const HELD: u8 = 75;
pub(crate) const LOST: u8 = 76;
pub(crate) const NOT_EXECUTABLE: u8 = 126;
pub(crate) const NOT_FOUND: u8 = 127;

pub(crate) const STATUS: &str = "\
Durations: 500ms, 2s, 1m, 1h
Other users can see command lines: put URLs with passwords into the environment.

Exit status:
  0    done
  64   wrong usage, or --yes is missing
  65   refused, by the database or because of the state of nodes or marks
  69   too few nodes granted or answered, or the database, etcd or ZooKeeper did not answer
  71   the operating system refused something, such as a port or the terminal
  75   the lock was held for the whole wait, or another session kept the database locked; serve, proxy:
       requests had not ended after --stop-within
  76   run: the lease was lost, or not renewed in time: the command was stopped
  126  run: the command cannot be executed
  127  run: the command was not found
  128 + signal, if a signal ended it
`fencing run` passes the status of its command on.";

/// The exit status, and why the command failed.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) u8, pub(crate) String);

impl Failure {
    pub(crate) fn new(status: u8, why: impl Display) -> Failure {
        Failure(status, why.to_string())
    }

    /// Fails with what would be done, unless that was agreed to.
    pub(crate) fn unless(yes: bool, would: impl Display) -> Result<(), Failure> {
        if yes { Ok(()) } else { Err(Failure::usage(would)) }
    }

    pub(crate) fn usage(why: impl Display) -> Failure {
        Failure::new(USAGE, why)
    }

    pub(crate) fn refused(why: impl Display) -> Failure {
        Failure::new(REFUSED, why)
    }

    pub(crate) fn unavailable(why: impl Display) -> Failure {
        Failure::new(UNAVAILABLE, why)
    }

    pub(crate) fn failed(why: impl Display) -> Failure {
        Failure::new(FAILED, why)
    }

    /// The database refused, for now or for good.
    pub(crate) fn held_if(for_now: bool, error: &dyn Error) -> Failure {
        Failure(if for_now { HELD } else { REFUSED }, say::chain(error))
    }
}

pub(crate) fn by_signal(signal: i32) -> u8 {
    u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX)
}
