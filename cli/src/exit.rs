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

pub(crate) const USAGE: u8 = 64;
pub(crate) const REFUSED: u8 = 65;
pub(crate) const UNAVAILABLE: u8 = 69;
pub(crate) const FAILED: u8 = 71;
pub(crate) const NOT_WRITTEN: u8 = 74;
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

/// The exit status, and why the command failed.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) u8, pub(crate) String);

impl Failure {
    /// Fails as wrong usage, unless the options fit together, or what would be done was agreed to.
    pub(crate) fn unless(fits: bool, why: impl Display) -> Result<(), Failure> {
        if fits { Ok(()) } else { Err(Failure::usage(why)) }
    }

    pub(crate) fn usage(why: impl Display) -> Failure {
        Failure(USAGE, why.to_string())
    }

    pub(crate) fn refused(why: impl Display) -> Failure {
        Failure(REFUSED, why.to_string())
    }

    pub(crate) fn unavailable(why: impl Display) -> Failure {
        Failure(UNAVAILABLE, why.to_string())
    }

    pub(crate) fn failed(why: impl Display) -> Failure {
        Failure(FAILED, why.to_string())
    }

    /// Fails as an error of the library or of the driver says: refused, for now or for good, or not reached.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Failure {
        let fault = error.downcast_ref::<Fault>();
        let status = match (fault, error.downcast_ref::<FencedError>(), error.downcast_ref::<OperatorError>()) {
            (Some(Fault::Denied(_) | Fault::Refused(_) | Fault::InvalidReply(_)), ..) => REFUSED,
            (Some(_), ..) => UNAVAILABLE,
            (_, Some(FencedError::Unreachable(_) | FencedError::InDoubt(_)), _) => UNAVAILABLE,
            (_, Some(FencedError::Unfit(Unfit::Loading)), _) => UNAVAILABLE,
            (.., Some(OperatorError::NotAll { .. } | OperatorError::OldForgot { .. })) => UNAVAILABLE,
            (.., Some(OperatorError::NotLeft { .. } | OperatorError::Overtaken)) => UNAVAILABLE,
            (.., Some(OperatorError::SameList)) => USAGE,
            _ if error.is::<BuildError>() => USAGE,
            _ if sql::is_retryable(error) => HELD,
            _ if sql::is_unavailable(error) => UNAVAILABLE,
            _ => REFUSED,
        };
        let whose = if fault.is_some() { "the lock service: " } else { "" };
        Failure(status, format!("{whose}{}", say::chain(error)))
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

pub(crate) fn by_signal(signal: i32) -> u8 {
    u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX)
}
