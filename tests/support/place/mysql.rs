//! Where the suite runs: a database on a private MariaDB.

use sqlx::mysql::MySqlPoolOptions;
use sqlx::{AssertSqlSafe, Executor, MySqlPool};

use crate::clients::output;
use crate::mariadb::MariadbServer as Server;
use crate::waiting::until;

#[path = "server.rs"]
mod server;

pub use server::*;

pub type Db = sqlx::MySql;

pub const LEVELS: &[&str] = &[
    "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; START TRANSACTION",
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION",
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION",
    "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; START TRANSACTION",
];

pub const TABLES: &str = "SELECT CAST(table_name AS CHAR) FROM information_schema.tables
    WHERE table_schema = DATABASE()";

pub use fencing::sql::statement::mysql::{ADMIT, HIGHEST};

pub fn name(resource: &fencing::Resource) -> &[u8] {
    resource.as_str().as_bytes()
}

pub const LOWER: &[&str] = &[
    "UPDATE fencing_marks SET token = 34",
    "UPDATE fencing_marks SET resource = 'files/b'",
    "DELETE FROM fencing_marks",
    "REPLACE INTO fencing_marks VALUES ('files/a', 33)",
    "INSERT INTO fencing_marks VALUES ('files/a', 1) ON DUPLICATE KEY UPDATE token = 1",
];

/// Whether the marks get their guard from docs/reference/sql.md: the migrations may not create it.
pub const GUARD: bool = true;

pub const MORE: &str = ", admissions BIGINT NOT NULL DEFAULT 0 INVISIBLE,
    raised_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) INVISIBLE";

pub const OLDER: &str = "UPDATE fencing_marks SET raised_at = raised_at - INTERVAL 2 HOUR";

pub fn lower(resource: &str, from: u64, to: u64) -> String {
    format!("CALL fencing_lower('{resource}', {from}, {to})")
}

pub const DUMP: &[&str] = &["--no-create-info", "--skip-triggers", "--skip-comments"];

pub const OURS: &[&str] = &[
    "_fencing_migrations",
    "fencing_audit",
    "fencing_floor",
    "fencing_leases",
    "fencing_marks",
    "fencing_marks_base",
    "fencing_marks_shared",
];

/// `?` for `$1`: the values are bound in their order.
pub fn sql(text: &str) -> AssertSqlSafe<String> {
    let mut parts = text.split('$');
    let mut sql = parts.next().unwrap().to_owned();
    for part in parts {
        sql.push('?');
        sql.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    AssertSqlSafe(sql)
}

pub const TYPES: &str = "SELECT 1";
pub const VARYING: &str = "TIMESTAMP";
pub const STEADY: &str = "DATETIME;DATE;BIGINT;CHAR(3);ENUM('a', 'b')";

const MARK: char = '`';

pub fn presented(token: Option<&str>, write: &str) -> String {
    let variable = |token: &str| if token.contains(' ') { "sequencer" } else { "token" };
    let present = token.map(|token| format!("SET @fencing_{} = '{token}'; ", variable(token)));
    format!("{}START TRANSACTION; {write}; COMMIT", present.unwrap_or_default())
}

pub const LOSE: &str = "DROP PROCEDURE fencing_check";
pub const LOST: &str = "fencing_check";

pub const CHANGE: &str = "CREATE PROCEDURE fencing_check(
    IN the_resource VARBINARY(1024), IN the_token VARBINARY(64)) BEGIN END";

pub const PRESENTED: &str = "INSERT INTO papers VALUES (?, ?)";

pub fn call(resource: &str, token: &str) -> String {
    format!("START TRANSACTION; CALL fencing_admit('{resource}', {token}); COMMIT;")
}

pub const GUARDED: &str = "UPDATE files
    SET late = late + CASE WHEN token > ? THEN 1 ELSE 0 END, token = ?";

pub const GIVES_WAY: bool = false;
pub const XA: bool = true;

pub const DEFAULTS: &[&str] = &[
    "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
];

pub const STOPS_MIGRATIONS: &str = "SELECT resource FROM fencing_marks_base";
pub const PATIENCE: (&str, i64) = ("SELECT CAST(@@lock_wait_timeout AS SIGNED)", 86400);
const PATIENT: &str = "SET SESSION lock_wait_timeout = 86400, innodb_lock_wait_timeout = 86400";
const READ_ONLY: &str = "SET SESSION TRANSACTION READ ONLY";
const IMPATIENT: &str = "SET innodb_lock_wait_timeout = 0";

const SETTINGS: &[&str] = &[
    "innodb-flush-log-at-trx-commit=0",
    "max-connections=300",
    // A test that waits for ever fails.
    "innodb-lock-wait-timeout=20",
    "lock-wait-timeout=20",
];

/// What the client `mariadb` takes statements behind.
const CLIENT_RUNS: &str = "-e";

impl Place {
    pub fn at(&self, level: &'static str) -> MySqlPool {
        self.with(level)
    }

    /// A pool with this statement at the start of every session.
    pub fn with(&self, statement: &'static str) -> MySqlPool {
        let options = MySqlPoolOptions::new().max_connections(20);
        let options = options
            .after_connect(move |connection, _| Box::pin(async move { connection.execute(statement).await.map(drop) }));
        options.connect_lazy_with(self.options.clone())
    }

    pub fn dump(&self, options: &[&str], tables: &[&str]) -> String {
        let mut dump = shared().program("mariadb-dump");
        dump.args(options).arg(self.name()).args(tables);
        output(&mut dump).unwrap()
    }

    pub async fn end_sessions(&self) {
        let others = "SELECT id FROM information_schema.processlist
            WHERE db = DATABASE() AND id <> CONNECTION_ID()";
        let mut own = self.other().acquire().await.unwrap();
        for id in sqlx::query_scalar::<_, i64>(others).fetch_all(&mut *own).await.unwrap() {
            let kill = AssertSqlSafe(format!("KILL {id}"));
            sqlx::query(kill).execute(&mut *own).await.unwrap();
        }
    }

    /// Waits until somebody waits for a lock. `innodb_trx` would be an old copy as long as anybody looks at it often.
    pub async fn blocked(&self) {
        let sessions = "SELECT id FROM information_schema.processlist WHERE db = DATABASE()";
        until("somebody waits", async || {
            let status = sqlx::query_as::<_, (String, String, String)>("SHOW ENGINE INNODB STATUS");
            let status = status.fetch_one(&self.pool).await.unwrap().2;
            let sessions = sqlx::query_scalar::<_, i64>(sessions).fetch_all(&self.pool).await;
            let sessions = sessions.unwrap();
            let transactions = status.split("---TRANSACTION").skip(1);
            let waiting = transactions.filter(|text| text.contains("LOCK WAIT"));
            let mut waiting = waiting.filter_map(|text| text.split("thread id ").nth(1));
            let waits = |text: &str| {
                let id = text.split(',').next().and_then(|id| id.parse::<i64>().ok());
                id.is_some_and(|id| sessions.contains(&id))
            };
            waiting.any(waits)
        })
        .await;
    }
}
