//! The same in the words of MySQL: `postgres/words.rs` says what each is.

use sqlx::MySqlPool;
use support::mariadb::MariadbServer;

pub const EXPIRE: &str = "UPDATE fencing_leases SET expires_at = 1 WHERE expires_at > 1";
pub const FREE: &str = "UPDATE fencing_leases SET expires_at = 0";
pub const CLOSE_FOR_EVER: &str = "UPDATE fencing_leases SET expires_at = 9223372036854775807";

pub const CLOSE_FOR_A_MOMENT: &str = "UPDATE fencing_leases
    SET expires_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + 1000000";

pub const NOW: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000";
pub const EXPIRES_AT: &str = "SELECT expires_at DIV 1000 FROM fencing_leases";
pub const OWNER: &str = "SELECT owner FROM fencing_leases";

pub fn later(column: &str, seconds: i64) -> String {
    format!("{column} = {column} + {seconds} * 1000000")
}

/// The end of the only part is an hour later.
pub const PART_BACK: &str = "UPDATE fencing_leases
    SET parts = CONCAT(LEFT(parts, 33), CAST(SUBSTRING(parts, 34) AS SIGNED) + 3600000000)";

pub const DRAINS_FOR: &str = "SELECT CAST((draining_until - draining_since) DIV 1000 AS SIGNED) FROM fencing_leases";
pub const RENEW: &str = "CALL fencing_lease_renew('invoice/42', ?, ?, 60000, 9)";
pub const SESSIONS: Option<&str> = Some("SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE()");
pub const PARTS_HAVE_NAMES: bool = false;

pub const SETTINGS: &[&str] = &["SET innodb_snapshot_isolation = ON", "SET innodb_lock_wait_timeout = 0"];

pub const LOCKED: &[(&str, &str)] = &[
    ("START TRANSACTION; SELECT token FROM fencing_leases FOR UPDATE", "ROLLBACK"),
    ("LOCK TABLES fencing_leases WRITE", "UNLOCK TABLES"),
];

/// How many statements run besides this one.
pub const WAITING: &str = "SELECT COUNT(*) FROM information_schema.processlist
    WHERE db = DATABASE() AND command <> 'Sleep' AND id <> CONNECTION_ID()";

pub const SLOW_GRANTS: &str = "CREATE TRIGGER slow BEFORE INSERT ON fencing_leases FOR EACH ROW DO SLEEP(2)";

/// What a replica that lags, and is promoted, would have: the rows and the number of the server are set back by hand.
pub struct Replica {
    pub pool: MySqlPool,
}

impl Replica {
    async fn run(&self, statement: &'static str) {
        sqlx::raw_sql(statement).execute(&self.pool).await.unwrap();
    }

    pub async fn of(_: &MariadbServer, database: &MySqlPool) -> Replica {
        let replica = Replica { pool: database.clone() };
        replica.run("CREATE TABLE replica AS SELECT * FROM fencing_leases").await;
        replica
    }

    pub async fn promote(&self, _: &mut MariadbServer) {
        self.run("REPLACE INTO fencing_leases SELECT * FROM replica").await;
        self.run("SET GLOBAL server_id = 7").await;
    }
}
