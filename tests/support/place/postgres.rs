//! Where the suite runs: a database on a private PostgreSQL.

use std::process::Command;

use sqlx::PgPool;

use crate::clients::output;
use crate::postgres::PostgresServer as Server;
use crate::waiting::until;

#[path = "server.rs"]
mod server;

pub use super::alike::*;
pub use server::*;

pub type Db = sqlx::Postgres;

/// How a transaction may begin.
pub const LEVELS: &[&str] = &[
    "BEGIN ISOLATION LEVEL READ COMMITTED",
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "BEGIN ISOLATION LEVEL SERIALIZABLE",
];

pub const TABLES: &str = "SELECT relname::text FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace";

/// The statements for other libraries.
pub use fencing::sql::statement::postgres::{ADMIT, HIGHEST};

/// What would take a mark of 35 down.
pub const LOWER: &[&str] = &[
    "UPDATE fencing_marks SET token = 34",
    "UPDATE fencing_marks SET resource = 'files/b'",
    "DELETE FROM fencing_marks",
    "TRUNCATE fencing_marks",
    "INSERT INTO fencing_marks VALUES ('files/a', 1) ON CONFLICT (resource) DO UPDATE SET token = 1",
];

/// The columns of a mark besides its name and token.
pub const MORE: &str = ", raised_at timestamptz NOT NULL DEFAULT clock_timestamp()";

/// Makes the marks two hours older.
pub const OLDER: &str = "UPDATE fencing_marks SET raised_at = raised_at - interval '2 hours'";

/// Lowers a mark, or the floor.
pub fn lower(resource: &str, from: u64, to: u64) -> String {
    format!("SELECT fencing_lower('{resource}', {from}, {to})")
}

/// Dumps rows alone, to be restored beside guards.
pub const DUMP: &[&str] = &["-a", "--disable-triggers", "--inserts"];

/// Types of columns, after these statements: those whose text varies with the session, and those where it does not.
pub const TYPES: &str = "CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE DOMAIN day AS date;
    CREATE DOMAIN name_of AS text; CREATE DOMAIN later AS day";
pub const VARYING: &str =
    "timestamptz;timestamp;date;interval;bytea;double precision;real;money;regclass;date[];point;day;later";
pub const STEADY: &str = "text;varchar(9);char(9);uuid;bigint;numeric;boolean;inet;mood;name_of";

const MARK: char = '"';

/// Presents this, if anything, in the transaction of a write.
pub fn presented(token: Option<&str>, write: &str) -> String {
    let present = token.map(|token| format!("SELECT fencing_present('{token}'); "));
    format!("BEGIN; {}{write}; COMMIT", present.unwrap_or_default())
}

/// Loses a part of the fence that is not a table, and its name.
pub const LOSE: &str = "DROP FUNCTION fencing_compare(text, bigint)";
pub const LOST: &str = "fencing_compare";

/// Gives it another text.
pub const CHANGE: &str = "CREATE FUNCTION fencing_compare(the_resource text, the_token bigint)
    RETURNS bigint LANGUAGE sql AS 'SELECT NULL::bigint'";

/// Writes a path, and what was presented before.
pub const PRESENTED: &str = "INSERT INTO papers VALUES ($1, $2)";

/// How another language calls the fence.
pub fn call(resource: &str, token: &str) -> String {
    format!("SELECT fencing_admit('{resource}', {token});")
}

/// Writes a token, and counts if a newer one was there.
pub const GUARDED: &str = "UPDATE files
    SET late = late + CASE WHEN token > $1 THEN 1 ELSE 0 END, token = $2";

/// Whether a trigger gives way to a newer token's raise, in place of waiting for it.
pub const GIVES_WAY: bool = true;

/// The levels that a session may begin its transactions on.
pub const DEFAULTS: &[&str] = &["read committed", "repeatable read", "serializable"];

/// Keeps a migration waiting, for as long as the transaction is open.
pub const STOPS_MIGRATIONS: &str = "SELECT pg_advisory_xact_lock(28821972413148775)";

/// How long a patient session waits for a lock.
pub const PATIENCE: (&str, i64) = ("SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'", 0);

const PATIENT: &[(&str, &str)] = &[("lock_timeout", "0")];
const READ_ONLY: &[(&str, &str)] = &[("default_transaction_read_only", "on")];
const IMPATIENT: &[(&str, &str)] = &[("lock_timeout", "50ms")];

const SETTINGS: &[&str] = &[
    "fsync=off",
    "max_connections=300",
    "deadlock_timeout=100ms",
    // A test that waits for ever fails.
    "lock_timeout=20s",
];

/// What `psql` takes statements behind.
const CLIENT_RUNS: &str = "-c";

impl Place {
    /// A pool whose sessions begin on this level.
    pub fn at(&self, level: &'static str) -> PgPool {
        self.with(&[("default_transaction_isolation", level)])
    }

    /// A pool with these settings in every session.
    pub fn with(&self, settings: &[(&'static str, &'static str)]) -> PgPool {
        pool(self.options.clone().options(settings.iter().copied()))
    }

    pub fn program(&self, name: &str) -> Command {
        let mut program = Command::new(name);
        program.arg("-h").arg(self.options.get_socket().unwrap()).args(["-U", "fencing", "-d"]);
        program.arg(self.name());
        program
    }

    /// What `pg_dump` prints of these tables, without the commands of its own to `psql`.
    pub fn dump(&self, options: &[&str], tables: &[&str]) -> String {
        let mut dump = self.program("pg_dump");
        dump.args(options).args(tables.iter().flat_map(|table| ["-t", table]));
        let dump = output(&mut dump).unwrap();
        dump.lines().filter(|line| !line.starts_with('\\')).collect::<Vec<_>>().join("\n")
    }

    pub async fn end_sessions(&self) {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        sqlx::query(end).execute(&self.other()).await.unwrap();
    }

    pub async fn blocked(&self) {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        until("somebody waits", async || {
            sqlx::query_scalar::<_, i64>(waiting).fetch_one(&self.pool).await.unwrap() > 0
        })
        .await;
    }
}
