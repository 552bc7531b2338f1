//! Where the suite runs: a SQLite file.

use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use tempfile::TempDir;

pub type Db = sqlx::Sqlite;

/// How a transaction may begin.
pub const LEVELS: &[&str] = &["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"];

pub const TABLES: &str =
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_'";

/// The migrations.
pub const VERSIONS: &[i64] = &[1];

/// The same placeholders serve here.
pub fn sql(text: &'static str) -> &'static str {
    text
}

/// One database of its own.
pub struct Place {
    folder: TempDir,
    journal: SqliteJournalMode,
    pub pool: SqlitePool,
}

impl Place {
    /// An empty database.
    pub async fn empty() -> Place {
        Place::with(SqliteJournalMode::Wal).await
    }

    pub async fn with(journal: SqliteJournalMode) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let pool = open(&folder, journal, Duration::from_millis(50));
        Place { folder, journal, pool }
    }

    /// A pool as another process would have it, with the driver's own patience.
    pub fn other(&self) -> SqlitePool {
        open(&self.folder, self.journal, Duration::from_secs(5))
    }

    /// A pool that hardly waits for a lock.
    pub fn impatient(&self) -> SqlitePool {
        open(&self.folder, self.journal, Duration::ZERO)
    }

    /// Waits until somebody waits for a lock: here nobody is ever seen to.
    pub async fn blocked(&self) {
        std::future::pending().await
    }
}

fn open(folder: &TempDir, journal: SqliteJournalMode, patience: Duration) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(folder.path().join("data.db"))
        .create_if_missing(true)
        .journal_mode(journal)
        .busy_timeout(patience);
    SqlitePoolOptions::new().max_connections(20).connect_lazy_with(options)
}

/// Whether the driver's error says that another transaction was in the way.
pub fn conflict(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.and_then(|code| code.parse::<i32>().ok()).is_some_and(|code| code & 0xff == 5)
}
