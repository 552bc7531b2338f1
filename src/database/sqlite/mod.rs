//! SQLite.

mod errors;
mod fence;
mod lease;
mod protect;

use sqlx::Sqlite;
use sqlx::sqlite::SqliteConnectOptions;

pub use self::errors::{is_conflict, meaning};
pub use self::fence::{BEGIN, HIGHEST};
use super::{Database, LeaseQueries};

impl Database for Sqlite {
    const LEASES: LeaseQueries = lease::LEASES;

    fn name(options: &SqliteConnectOptions) -> String {
        format!("sqlite:{}", options.get_filename().display())
    }
}
