//! Where the suite runs: a database on a private MariaDB.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Executor, MySqlPool};

use crate::mariadb::MariadbServer;

pub type Db = sqlx::MySql;

/// How a transaction may begin.
pub const LEVELS: &[&str] = &[
    "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; START TRANSACTION",
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION",
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION",
    "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; START TRANSACTION",
];

pub const TABLES: &str = "SELECT CAST(table_name AS CHAR) FROM information_schema.tables
    WHERE table_schema = DATABASE()";

/// The migrations.
pub const VERSIONS: &[i64] = &[1, 2];

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

/// One database of its own, on a server that the tests share.
pub struct Place {
    options: MySqlConnectOptions,
    pub pool: MySqlPool,
}

impl Place {
    /// An empty database.
    pub async fn empty() -> Place {
        let settings = [
            "innodb-flush-log-at-trx-commit=0",
            "max-connections=300",
            // A test that waits for ever fails.
            "innodb-lock-wait-timeout=20",
            "lock-wait-timeout=20",
        ];
        static SHARED: OnceLock<MariadbServer> = OnceLock::new();
        let options = SHARED.get_or_init(|| MariadbServer::with(&settings)).database().await;
        Place { pool: pool(options.clone()), options }
    }

    /// A pool as another process would have it.
    pub fn other(&self) -> MySqlPool {
        pool(self.options.clone())
    }

    /// A pool that hardly waits for a lock.
    pub fn impatient(&self) -> MySqlPool {
        self.with("SET innodb_lock_wait_timeout = 0")
    }

    /// A pool with this statement at the start of every session.
    pub fn with(&self, statement: &'static str) -> MySqlPool {
        let options = MySqlPoolOptions::new().max_connections(20);
        let options = options.after_connect(move |connection, _| {
            Box::pin(async move { connection.execute(statement).await.map(drop) })
        });
        options.connect_lazy_with(self.options.clone())
    }

    /// Waits until somebody waits for a lock. `innodb_trx` would be an old copy as long
    /// as anybody looks at it often.
    pub async fn blocked(&self) {
        let sessions = "SELECT id FROM information_schema.processlist WHERE db = DATABASE()";
        let end = Instant::now() + Duration::from_secs(15);
        loop {
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
            if waiting.any(waits) {
                return;
            }
            assert!(Instant::now() < end, "nobody waits:\n{status}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub fn pool(options: MySqlConnectOptions) -> MySqlPool {
    MySqlPoolOptions::new().max_connections(20).connect_lazy_with(options)
}

/// Whether the driver's error says that another transaction was in the way.
pub fn conflict(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    let error = error.and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    error.is_some_and(|error| matches!(error.number(), 1205 | 1213 | 1020))
}
