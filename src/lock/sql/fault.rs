use fencing_protocol::Fault;

use crate::database::{Meaning, explain, meaning};

/// Returns why there is no connection. Nothing has been sent.
pub(super) fn of_connection(error: sqlx::Error) -> Fault {
    match error {
        sqlx::Error::PoolTimedOut => {
            Fault::Unreachable("the database is down or locked, or no connection of the pool is free".into())
        }
        sqlx::Error::PoolClosed => Fault::Unreachable("the pool is closed".into()),
        sqlx::Error::Io(error) => Fault::Unreachable(error.to_string()),
        error => match refused(&error) {
            Fault::Refused(text) | Fault::NotNow(text) | Fault::Disconnected(text) => Fault::Unreachable(text),
            fault => fault,
        },
    }
}

/// Returns why a statement failed. It may have run anyway, unless the database says that it has not.
pub(super) fn of_statement(error: sqlx::Error) -> Fault {
    match error {
        sqlx::Error::Io(error) => Fault::Disconnected(error.to_string()),
        sqlx::Error::WorkerCrashed | sqlx::Error::Protocol(_) => Fault::Disconnected(error.to_string()),
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Fault::InvalidReply(error.to_string()),
        error => refused(&error),
    }
}

fn refused(error: &sqlx::Error) -> Fault {
    let Some(said) = error.as_database_error() else { return Fault::Refused(explain(error)) };
    let text = said.message().to_owned();
    match meaning(error) {
        Some(Meaning::NotMigrated) => Fault::Refused(format!(
            "{text}: run fencing::sql::migrate first, or `fencing db migrate`, which says whether marks are lost; if that \
             is done, check this user's rights"
        )),
        Some(Meaning::Denied) => Fault::Denied(text),
        Some(Meaning::Closing | Meaning::Unreached) => Fault::Disconnected(text),
        Some(Meaning::Starting) => Fault::Loading,
        Some(Meaning::Conflict | Meaning::NotNow) => Fault::NotNow(text),
        // The only check of the table that can fail.
        Some(Meaning::Other) if said.is_check_violation() => {
            Fault::Refused("the tokens of this resource have run out: 999999999999999 was the last".into())
        }
        _ => Fault::Refused(text),
    }
}
