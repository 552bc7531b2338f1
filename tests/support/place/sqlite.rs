//! Where the suite runs: a SQLite file.

use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use tempfile::TempDir;

use crate::clients::{output, quote};

pub use super::alike::*;

pub type Db = sqlx::Sqlite;

pub const LEVELS: &[&str] = &["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"];
pub const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_'";

pub use fencing::sql::statement::sqlite::{ADMIT, HIGHEST};

pub const LOWER: &[&str] = &[
    "UPDATE fencing_marks SET token = 34",
    "UPDATE OR IGNORE fencing_marks SET token = 34",
    "UPDATE fencing_marks SET resource = 'files/b'",
    "DELETE FROM fencing_marks",
    "INSERT OR REPLACE INTO fencing_marks (resource, token) VALUES ('files/a', 33)",
];

pub const MORE: &str = ", raised_at INTEGER NOT NULL DEFAULT (unixepoch())";
pub const OLDER: &str = "UPDATE fencing_marks SET raised_at = raised_at - 7200";

pub fn lower(resource: &str, from: u64, to: u64) -> String {
    format!("INSERT INTO main.fencing_lower VALUES ('{resource}', {from}, {to})")
}

pub const TEMPORARY: &str = "CREATE TEMP TABLE fencing_admit (resource TEXT, token INTEGER)";
pub const TYPES: &str = "SELECT 1";
pub const VARYING: &str = "";
pub const STEADY: &str = "TEXT;DATE";
pub const LOSE: &str = "DROP TRIGGER fencing_admit";
pub const LOST: &str = "fencing_admit";

/// Gives it another text. A connection that has not read anything since another one dropped it takes it for there.
pub const CHANGE: &str =
    "SELECT name FROM sqlite_master; CREATE TRIGGER fencing_admit INSTEAD OF INSERT ON fencing_admit BEGIN
    SELECT 1; END";

/// Errors have a message only.
pub const STATES: &str = "";

pub fn insert(token: Option<&str>, path: &str, body: &str) -> String {
    match token {
        Some(token) => {
            format!("INSERT INTO documents (path, body, fencing_token) VALUES ('{path}', '{body}', {})", literal(token))
        }
        None => format!("INSERT INTO documents (path, body) VALUES ('{path}', '{body}')"),
    }
}

pub fn update(token: Option<&str>, path: &str, body: &str) -> String {
    set(token, &format!("body = '{body}'"), path)
}

pub fn rename(token: Option<&str>, path: &str, to: &str) -> String {
    set(token, &format!("path = '{to}'"), path)
}

pub fn delete(token: Option<&str>, path: &str) -> String {
    match token {
        Some(token) => {
            let token = literal(&format!("-{token}"));
            format!("UPDATE documents SET fencing_token = {token} WHERE path = '{path}'")
        }
        None => format!("DELETE FROM documents WHERE path = '{path}'"),
    }
}

fn set(token: Option<&str>, what: &str, path: &str) -> String {
    let token = token.map(|token| format!("fencing_token = {}, ", literal(token)));
    let token = token.unwrap_or_default();
    format!("UPDATE documents SET {token}{what} WHERE path = '{path}'")
}

/// What a write of the driver presents by itself, behind the columns that it sets.
pub fn presents(sequencer: &fencing::Sequencer) -> String {
    format!(", fencing_token = {}", quote(&sequencer.to_string(), '\''))
}

/// The same through the driver.
pub fn guarded(token: Option<u64>) -> String {
    update(token.map(|token| token.to_string()).as_deref(), "a", "guarded")
}

/// Writes a path, and presents this.
pub const PRESENTED: &str = "INSERT INTO papers (path, fencing_token) VALUES ($1, $2)";

/// A token alone is a number.
fn literal(token: &str) -> String {
    if token.contains(' ') { quote(token, '\'') } else { token.to_owned() }
}

pub fn create(table: &str, column: &str) -> String {
    format!("CREATE TABLE {} ({} TEXT)", quote(table, '"'), quote(column, '"'))
}

pub fn insert_into(table: &str, value: &str) -> String {
    format!("INSERT INTO {} VALUES ('{value}', NULL)", quote(table, '"'))
}

pub fn call(resource: &str, token: &str) -> String {
    format!("INSERT INTO fencing_admit VALUES ('{resource}', {token})")
}

const PYTHON: &str = "
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute('BEGIN IMMEDIATE')
db.execute(sys.argv[2])
db.execute('COMMIT')";

pub const GUARDED: &str = "UPDATE files
    SET late = late + CASE WHEN token > ?1 THEN 1 ELSE 0 END, token = ?2";

pub const DEFAULTS: &[&str] = &["the only one"];

pub struct Place {
    folder: TempDir,
    journal: SqliteJournalMode,
    pub pool: SqlitePool,
}

impl Place {
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

    pub fn patient(&self) -> SqlitePool {
        self.other()
    }

    pub fn at(&self, _: &'static str) -> SqlitePool {
        self.pool.clone()
    }

    pub fn read_only(&self) -> SqlitePool {
        let options = (*self.pool.connect_options()).clone().read_only(true);
        SqlitePoolOptions::new().connect_lazy_with(options)
    }

    pub fn impatient(&self) -> SqlitePool {
        open(&self.folder, self.journal, Duration::ZERO)
    }

    /// Runs a statement through Python's own sqlite3: its error, if there is one.
    pub fn client(&self, statement: &str) -> Result<String, String> {
        let mut python = std::process::Command::new("python3");
        python.args(["-ISc", PYTHON]).arg(self.folder.path().join("data.db")).arg(statement);
        output(&mut python)
    }

    /// Waits until somebody waits for a lock: here nobody is ever seen to.
    pub async fn blocked(&self) {
        std::future::pending().await
    }
}

fn open(folder: &TempDir, journal: SqliteJournalMode, patience: Duration) -> SqlitePool {
    let options = SqliteConnectOptions::new().filename(folder.path().join("data.db")).create_if_missing(true);
    let options = options.journal_mode(journal).busy_timeout(patience);
    SqlitePoolOptions::new().max_connections(20).connect_lazy_with(options)
}
