//! The exit statuses besides the command's own; those of `sysexits.h` if one fits.

use std::error::Error;
use std::fmt::Display;

use fencing::fence::FenceError;
use fencing::lock::Fault;
use fencing::lock::redlock::{BuildError, OperatorError};
use fencing::redis::{FencedError, Unfit};
use fencing::sql::{self, AdmitError, MigrateError, ProtectError};
use sqlx::Error as SqlError;

use crate::say;

pub(crate) const STATUS_HELP: &str = "\
Durations: 500ms, 2s, 1m, 1h
Other users can see command lines: put URLs with passwords into the environment.

Exit status:
  0    done
  64   wrong usage, or --yes is missing
  65   refused, by the database, etcd or ZooKeeper, or because of the state of nodes or marks
  69   too few nodes granted or answered, or the database, etcd or ZooKeeper did not answer,
       or takes no writes now
  71   the operating system refused something, such as a port or the terminal
  74   the output could not be written, for example because the disk is full
  75   the lock was held for the whole wait, or the database stayed locked; serve, proxy: requests
       lasted longer than --stop-within
  76   run: the lease was lost, or not renewed in time: the command was stopped
  126  run: the command cannot be executed
  127  run: the command was not found
  128 + signal, if a signal ended it
`fencing run` passes the status of its command on.";

/// An exit status: one of these, that of a signal, or any that the command of `fencing run` ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Status(pub(crate) u8);

impl Status {
    pub(crate) const DONE: Status = Status(0);
    pub(crate) const USAGE: Status = Status(64);
    pub(crate) const REFUSED: Status = Status(65);
    pub(crate) const UNAVAILABLE: Status = Status(69);
    pub(crate) const FAILED: Status = Status(71);
    pub(crate) const NOT_WRITTEN: Status = Status(74);
    pub(crate) const HELD: Status = Status(75);
    pub(crate) const LOST: Status = Status(76);
    pub(crate) const NOT_EXECUTABLE: Status = Status(126);
    pub(crate) const NOT_FOUND: Status = Status(127);

    pub(crate) fn from_code(code: i32) -> Status {
        Status(u8::try_from(code).unwrap_or(u8::MAX))
    }

    pub(crate) fn by_signal(signal: i32) -> Status {
        Status::from_code(signal.saturating_add(128))
    }
}

/// The exit status of a command that failed, and why it did.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(status: Status, why: impl Display) -> Failure {
        Failure { status, message: why.to_string() }
    }

    pub(crate) fn with_more(self, more: impl Display) -> Failure {
        Failure::new(self.status, format_args!("{}{more}", self.message))
    }

    /// Fails as wrong usage, unless the options fit together, or what would be done was agreed to.
    pub(crate) fn usage_unless(fits: bool, why: impl Display) -> Result<(), Failure> {
        if fits { Ok(()) } else { Err(Failure::usage(why)) }
    }

    pub(crate) fn usage(why: impl Display) -> Failure {
        Failure::new(Status::USAGE, why)
    }

    pub(crate) fn refused(why: impl Display) -> Failure {
        Failure::new(Status::REFUSED, why)
    }

    pub(crate) fn unavailable(why: impl Display) -> Failure {
        Failure::new(Status::UNAVAILABLE, why)
    }

    pub(crate) fn failed(why: impl Display) -> Failure {
        Failure::new(Status::FAILED, why)
    }

    /// Fails as an error of the library or of the driver says: refused, for now or for good, or not reached.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Failure {
        let fault = error.downcast_ref::<Fault>();
        let status = match (fault, error.downcast_ref::<FencedError>(), error.downcast_ref::<OperatorError>()) {
            (Some(Fault::Denied(_) | Fault::Refused(_) | Fault::InvalidReply(_)), ..) => Status::REFUSED,
            (Some(_), ..) => Status::UNAVAILABLE,
            (_, Some(FencedError::Unreachable(_) | FencedError::InDoubt(_)), _) => Status::UNAVAILABLE,
            (_, Some(FencedError::Unfit(Unfit::Loading)), _) => Status::UNAVAILABLE,
            (.., Some(OperatorError::NotAll { .. } | OperatorError::OldForgot { .. })) => Status::UNAVAILABLE,
            (.., Some(OperatorError::NotLeft { .. } | OperatorError::Overtaken)) => Status::UNAVAILABLE,
            (.., Some(OperatorError::SameList)) => Status::USAGE,
            _ if error.is::<BuildError>() => Status::USAGE,
            _ if sql::is_retryable(error) => Status::HELD,
            _ if sql::is_unavailable(error) => Status::UNAVAILABLE,
            _ => Status::REFUSED,
        };
        let whose = if fault.is_some() { "the lock service: " } else { "" };
        Failure::new(status, format_args!("{whose}{}", say::chain(error)))
    }
}

macro_rules! failures {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                Failure::of(&error)
            }
        })*
    };
}
failures!(AdmitError, BuildError, Fault, FenceError, FencedError, MigrateError, OperatorError, ProtectError, SqlError);
