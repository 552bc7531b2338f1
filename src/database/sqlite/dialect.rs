use sqlx::Sqlite;
use sqlx::error::DatabaseError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteError};

use crate::database::dialect::plain_statements;
use crate::database::{Dialect, Meaning};

impl Dialect for Sqlite {
    const PARAMETER: &'static str = "?1";

    fn name(options: &SqliteConnectOptions) -> String {
        format!("sqlite:{}", options.get_filename().display())
    }

    fn literal(text: impl AsRef<[u8]>) -> String {
        format!("CAST(x'{}' AS TEXT)", hex::encode(text))
    }

    plain_statements!();
}

/// Whether this code is a conflict with another transaction: BUSY, LOCKED, and PROTOCOL, the race for a WAL's locks
/// that was lost too often. An extended code, BUSY_SNAPSHOT say, has the primary one in its low byte.
pub fn is_conflict(code: i32) -> bool {
    matches!(code & 0xff, 5 | 6 | 15)
}

pub fn meaning(error: &dyn DatabaseError) -> Option<Meaning> {
    let error = error.try_downcast_ref::<SqliteError>()?;
    let code = error.code().and_then(|code| code.parse::<i32>().ok());
    Some(match code {
        Some(code) if is_conflict(code) => Meaning::Conflict,
        // In a trigger the table has its schema before it.
        Some(1) if is_missing(error.message()) => Meaning::NotMigrated,
        // It quotes what the fence's triggers say.
        Some(1) if error.message().contains("'fencing: no token presented") => Meaning::Unpresented,
        Some(1) if error.message().contains(" is stale, high water ") => Meaning::Stale,
        // PERM, READONLY, AUTH
        Some(code) if matches!(code & 0xff, 3 | 8 | 23) => Meaning::Denied,
        _ => Meaning::Other,
    })
}

fn is_missing(text: &str) -> bool {
    text.strip_prefix("no such table: ").is_some_and(|table| table.contains("fencing_"))
}
