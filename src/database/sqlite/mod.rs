mod fence;
mod lease;
mod protect;

use sqlx::Sqlite;
use sqlx::error::DatabaseError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteError};

use super::dialect::plain_statements;
use super::schema::migrations;
use super::{Dialect, FenceStatements, Meaning, Migrations, NO_FLOOR, Schema};

impl Dialect for Sqlite {
    const PARAMETER: &'static str = "?1";

    const CAN_HANG: bool = false;

    fn name(options: &SqliteConnectOptions) -> String {
        format!("sqlite:{}", options.get_filename().display())
    }

    fn literal(text: impl AsRef<[u8]>) -> String {
        format!("CAST(x'{}' AS TEXT)", hex::encode(text))
    }

    plain_statements!();
}

pub fn meaning(error: &dyn DatabaseError) -> Option<Meaning> {
    let error = error.try_downcast_ref::<SqliteError>()?;
    let code = error.code().and_then(|code| code.parse::<i32>().ok());
    let text = error.message();
    // It quotes what the fence's triggers say.
    let fence = text.split_once("'fencing: ").map_or("", |(_, fence)| fence);
    Some(match code.unwrap_or(0) {
        1 if fence.starts_with("no token presented") => Meaning::Unpresented,
        1 if fence.starts_with("token ") => Meaning::Stale,
        1 if text.starts_with("no such table: ") || fence.contains(NO_FLOOR) => Meaning::NotMigrated,
        code => meaning_of(code),
    })
}

/// Returns the meaning of an error by its code. An extended code (BUSY_SNAPSHOT) has the primary one in its low byte.
pub fn meaning_of(code: i32) -> Meaning {
    match code & 0xff {
        // BUSY, LOCKED, and PROTOCOL, the race for a WAL's locks that was lost too often.
        5 | 6 | 15 => Meaning::Conflict,
        // PERM, READONLY, AUTH
        3 | 8 | 23 => Meaning::Denied,
        // FULL
        13 => Meaning::NotNow,
        _ => Meaning::Other,
    }
}

impl Schema for Sqlite {
    const MIGRATIONS: Migrations = migrations!("sqlite");

    const REMOVAL: &'static str = include_str!("../../../migrations/sqlite/remove.sql");

    const HOME: &'static str = "SELECT 'main.'";

    const BEGIN_MIGRATION: &'static str = Sqlite::BEGIN;

    /// The schema keeps the text from the name on.
    const OBJECTS: &'static str = "SELECT 'trigger ' || name, 'TRIGGER ' || substr(sql, 16), NULL
        FROM main.sqlite_schema WHERE type = 'trigger'";
}
