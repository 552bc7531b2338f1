use sqlx::Postgres;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgDatabaseError};

use crate::database::dialect::{plain_statements, server};
use crate::database::{Dialect, Meaning};

impl Dialect for Postgres {
    const PARAMETER: &'static str = "$1";

    fn name(options: &PgConnectOptions) -> String {
        let place = server(options.get_socket(), options.get_host(), options.get_port());
        let database = options.get_database().unwrap_or(options.get_username());
        format!("postgres://{place}/{database}")
    }

    fn literal(text: impl AsRef<[u8]>) -> String {
        format!("convert_from(decode('{}', 'hex'), 'UTF8')", hex::encode(text))
    }

    plain_statements!();
}

pub fn meaning(error: &dyn DatabaseError) -> Option<Meaning> {
    Some(meaning_of(error.try_downcast_ref::<PgDatabaseError>()?.code()))
}

/// Returns the meaning of an error by its SQLSTATE.
pub fn meaning_of(state: &str) -> Meaning {
    match state {
        // serialization_failure, deadlock_detected, lock_not_available
        "40001" | "40P01" | "55P03" => Meaning::Conflict,
        // in_failed_sql_transaction
        "25P02" => Meaning::Aborted,
        // undefined_table, undefined_function
        "42P01" | "42883" => Meaning::NotMigrated,
        // insufficient_privilege; invalid_authorization, invalid_password
        "42501" | "28000" | "28P01" => Meaning::Denied,
        // admin_shutdown, crash_shutdown, database_dropped, idle_session_timeout,
        // idle_in_transaction_session_timeout, transaction_timeout
        "57P01" | "57P02" | "57P04" | "57P05" | "25P03" | "25P04" => Meaning::Closing,
        // cannot_connect_now
        "57P03" => Meaning::Starting,
        // too_many_connections; class 08, connection exceptions
        "53300" => Meaning::Unreached,
        state if state.len() == 5 && state.starts_with("08") => Meaning::Unreached,
        // read_only_sql_transaction, as on a standby; disk_full, out_of_memory; query_canceled
        "25006" | "53100" | "53200" | "57014" => Meaning::NotNow,
        _ => Meaning::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appendix A of the documentation: each of them is FATAL.
    #[test]
    fn a_session_that_ended_is_told_from_a_statement_that_failed() {
        for state in ["57P01", "57P02", "57P04", "57P05", "25P03", "25P04"] {
            assert_eq!(meaning_of(state), Meaning::Closing, "{state}");
        }
        for state in ["25P02", "57014", "57P03", "40001"] {
            assert_ne!(meaning_of(state), Meaning::Closing, "{state}");
        }
    }
}
