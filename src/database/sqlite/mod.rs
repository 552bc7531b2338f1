//! SQLite.

mod errors;
mod fence;
mod lease;
mod protect;

use sqlx::Sqlite;
use sqlx::sqlite::SqliteConnectOptions;

pub use self::errors::{is_conflict, meaning};
pub use self::fence::{BEGIN, HIGHEST};
use super::Database;

impl Database for Sqlite {
    const LEASES: &'static str = lease::LEASES;
    const END_LEASE: &'static str = lease::END_LEASE;
    const PROBE: &'static str = lease::PROBE;

    fn name(options: &SqliteConnectOptions) -> String {
        format!("sqlite:{}", options.get_filename().display())
    }
}
