//! The exit statuses besides the command's own; those of `sysexits.h` if one fits.

use std::error::Error;
use std::fmt::Display;
use std::iter::successors;

use fencing::fence::FenceError;
use fencing::lock::Fault;
use fencing::lock::redlock::{BuildError, OperatorError};
use fencing::redis::FencedError;
use fencing::sql::statement::{mysql, postgres};
use fencing::sql::{self, AdmitError, MigrateError, ProtectError};
use sqlx::Error as SqlError;
use sqlx::mysql::MySqlDatabaseError;

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

    fn of_database(error: impl Error + 'static) -> Failure {
        Failure::of_source(&error)
    }

    /// The database refused, for now or for good, or is lost.
    pub(crate) fn of_source(error: &(dyn Error + 'static)) -> Failure {
        let status = match error.downcast_ref::<Fault>() {
            Some(fault) => Failure::from(fault.clone()).0,
            _ if sql::is_retryable(error) => HELD,
            _ if is_lost(error) => UNAVAILABLE,
            _ => REFUSED,
        };
        Failure(status, say::chain(error))
    }

    fn of_fault(fault: Fault) -> Failure {
        let is_refused = matches!(fault, Fault::Denied(_) | Fault::Refused(_) | Fault::InvalidReply(_));
        Failure(if is_refused { REFUSED } else { UNAVAILABLE }, format!("the lock service: {fault}"))
    }

    fn of_marks(error: FencedError) -> Failure {
        match error {
            FencedError::Unreachable(_) | FencedError::InDoubt(_) => Failure::unavailable(error),
            _ => Failure::refused(error),
        }
    }

    fn of_operator(error: OperatorError) -> Failure {
        match error {
            OperatorError::NotAll { .. } | OperatorError::OldForgot { .. } => Failure::unavailable(error),
            OperatorError::SameList => Failure::usage(error),
            _ => Failure::refused(error),
        }
    }
}

/// Read-only (a standby), disk full, out of memory, query canceled. 42P05, 26000: a pooler used another session.
const NOT_NOW_IN_POSTGRES: [&str; 6] = ["25006", "53100", "53200", "57014", "42P05", "26000"];
const NOT_NOW_IN_MYSQL: [u16; 9] = [1021, 1290, 1792, 1836, 1317, 3024, 1969, 1047, 1226];

/// Whether the connection broke, could not be made, or was ended by the server, or the server can't do it now.
fn is_lost(error: &(dyn Error + 'static)) -> bool {
    let mut causes = successors(Some(error), |error| (**error).source());
    causes.find_map(|error| error.downcast_ref()).is_some_and(|error| match error {
        SqlError::Database(error) => match error.try_downcast_ref::<MySqlDatabaseError>() {
            Some(error) => mysql::is_down(error.number()) || NOT_NOW_IN_MYSQL.contains(&error.number()),
            None => error.code().is_some_and(|it| postgres::is_down(&it) || NOT_NOW_IN_POSTGRES.contains(&&*it)),
        },
        SqlError::Io(_) | SqlError::Tls(_) | SqlError::PoolTimedOut | SqlError::WorkerCrashed => true,
        _ => false,
    })
}

macro_rules! failures {
    ($($error:ident => $failure:ident),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                Failure::$failure(error)
            }
        })*
    };
}
failures! {
    AdmitError => of_database,
    BuildError => usage,
    Fault => of_fault,
    FenceError => of_database,
    FencedError => of_marks,
    MigrateError => of_database,
    OperatorError => of_operator,
    ProtectError => of_database,
    SqlError => of_database,
}

pub(crate) fn by_signal(signal: i32) -> u8 {
    u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX)
}
