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
    Some(match (code.unwrap_or(0), error.message()) {
        (1, text) if text.starts_with("no such table: ") => Meaning::NotMigrated,
        // It quotes what the fence's triggers say.
        (1, text) if text.contains(NO_FLOOR) => Meaning::NotMigrated,
        (1, text) if text.contains("'fencing: no token presented") => Meaning::Unpresented,
        (1, text) if text.contains(" is stale, high water ") => Meaning::Stale,
        (code, _) => meaning_of(code),
    })
}

/// Returns the meaning of an error by its code. An extended code (BUSY_SNAPSHOT) has the primary one in its low byte.
pub fn meaning_of(code: i32) -> Meaning {
    match code & 0xff {
        // BUSY, LOCKED, and PROTOCOL, the race for a WAL's locks that was lost too often.
        5 | 6 | 15 => Meaning::Conflict,
        // PERM, AUTH
        3 | 23 => Meaning::Denied,
        // READONLY, FULL
        8 | 13 => Meaning::NotNow,
        _ => Meaning::Other,
    }
}

impl Schema for Sqlite {
    const MIGRATIONS: Migrations = migrations!("sqlite");

    const REMOVAL: &'static str = include_str!("../../../migrations/sqlite/remove.sql");

    const HOME: &'static str = "SELECT 'main.'";

    const BEGIN_MIGRATION: &'static str = Sqlite::BEGIN;

    /// The schema keeps the text from the name on.
    const OBJECTS: &'static str = "SELECT 'trigger ' || name, 'TRIGGER IF NOT EXISTS ' || substr(sql, 16), NULL
        FROM main.sqlite_schema WHERE type = 'trigger'";
}
