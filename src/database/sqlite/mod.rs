//! SQLite.

mod errors;
mod fence;

use sqlx::Sqlite;
use sqlx::sqlite::SqliteConnectOptions;

pub use self::errors::{is_conflict, meaning};
pub use self::fence::{BEGIN, HIGHEST};
use super::{Kind, Named};

impl Named for Sqlite {
    const KIND: Kind = Kind::Sqlite;

    fn name(options: &SqliteConnectOptions) -> String {
        format!("sqlite:{}", options.get_filename().display())
    }
}
