use super::backend::{Backend, Refusal};
use crate::protocol::Fault;

/// Whether the same statement may succeed when it is run again.
pub(super) fn is_conflict<DB: Backend>(error: &sqlx::Error) -> bool {
    matches!(error.as_database_error().map(DB::refusal), Some(Refusal::Conflict))
}

/// Why there is no connection. Nothing has been sent.
pub(super) fn of_connection<DB: Backend>(error: &sqlx::Error) -> Fault {
    match error {
        sqlx::Error::PoolTimedOut => {
            Fault::Unreachable("it is down, or no connection of the pool is free".into())
        }
        sqlx::Error::PoolClosed => Fault::Unreachable("the pool is closed".into()),
        sqlx::Error::Io(error) => Fault::Unreachable(error.to_string()),
        error => match refused::<DB>(error) {
            Fault::Refused(text) => Fault::Unreachable(text),
            fault => fault,
        },
    }
}

/// Why a statement has no good end. It may have run all the same, unless the database
/// says that it has not.
pub(super) fn of_statement<DB: Backend>(error: &sqlx::Error) -> Fault {
    match error {
        sqlx::Error::Io(error) => Fault::Disconnected(error.to_string()),
        sqlx::Error::WorkerCrashed | sqlx::Error::Protocol(_) => {
            Fault::Disconnected(error.to_string())
        }
        sqlx::Error::ColumnDecode { .. } => Fault::Nonsense(error.to_string()),
        error => refused::<DB>(error),
    }
}

fn refused<DB: Backend>(error: &sqlx::Error) -> Fault {
    let Some(error) = error.as_database_error() else { return Fault::Refused(error.to_string()) };
    let text = error.message().to_owned();
    match DB::refusal(error) {
        Refusal::NoTable => Fault::Refused(format!("{text}: run fencing::sql::migrate first")),
        Refusal::Denied => Fault::Denied(text),
        Refusal::Closing => Fault::Disconnected(text),
        Refusal::Starting => Fault::Loading,
        // The one thing that the table checks and that can come about.
        Refusal::Other if error.is_check_violation() => {
            Fault::Refused("its tokens have run out: 999999999999999 was the last".into())
        }
        Refusal::Conflict | Refusal::Other => Fault::Refused(text),
    }
}
