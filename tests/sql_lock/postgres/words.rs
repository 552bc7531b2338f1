//! What the suite says to the database, in the words of PostgreSQL.

use sqlx::PgPool;
use support::postgres::PostgresServer;
use support::waiting::until;

use super::place::pool;

/// The row has expired, and was not released.
pub const EXPIRE: &str = "UPDATE fencing_leases
    SET expires_at = clock_timestamp() - interval '1 s' WHERE expires_at > clock_timestamp()";

/// The row is set free, as an operator may do it.
pub const FREE: &str = "UPDATE fencing_leases SET expires_at = '-infinity'";

/// The row never expires.
pub const CLOSE_FOR_EVER: &str = "UPDATE fencing_leases SET expires_at = 'infinity'";

/// The row expires in a second.
pub const CLOSE_FOR_A_MOMENT: &str = "UPDATE fencing_leases SET expires_at = clock_timestamp() + interval '1 s'";

/// The time, in milliseconds.
pub const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// When the row expires, in milliseconds.
pub const EXPIRES_AT: &str = "SELECT (extract(epoch FROM expires_at) * 1000)::bigint FROM fencing_leases";

/// The name of the only row's owner.
pub const OWNER: &str = "SELECT owner::bytea FROM fencing_leases";

/// Sets a time in the rows later, or earlier.
pub fn later(column: &str, seconds: i64) -> String {
    format!("{column} = {column} + interval '{seconds} s'")
}

/// The ends of the parts are an hour later.
pub const PART_BACK: &str = "UPDATE fencing_leases SET parts = (
    SELECT jsonb_object_agg(key, value::bigint + 3600000000) FROM jsonb_each_text(parts))";

/// For how many milliseconds the wait keeps others from joining.
pub const DRAINS_FOR: &str =
    "SELECT (extract(epoch FROM draining_until - draining_since) * 1000)::bigint FROM fencing_leases";

/// A renewal of a minute as it reaches the server, for an owner with a token: whether it was one.
pub const RENEW: &str = "SELECT fencing_lease_renew('invoice/42', $1, $2, 60000)::int::bigint";

/// How many sessions the database has.
pub const SESSIONS: Option<&str> = Some("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()");

/// Whether the parts of a row that several share carry names.
pub const PARTS_HAVE_NAMES: bool = true;

/// Settings besides the isolation levels under which conflicts fail, or are waited for in another way.
pub const SETTINGS: &[&str] = &[];

/// What somebody may keep locked, and how it ends.
pub const LOCKED: &[(&str, &str)] = &[("BEGIN; SELECT FROM fencing_leases FOR UPDATE", "ROLLBACK")];

/// How many statements wait for a lock.
pub const WAITING: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'";

/// A new row takes two seconds.
pub const SLOW_GRANTS: &str = "
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_sleep(2); RETURN NULL;
    END $$;
    CREATE TRIGGER slow BEFORE INSERT ON fencing_leases FOR EACH STATEMENT EXECUTE FUNCTION slow();
";

/// A replica that lags, and is promoted: a standby that has been cut off.
pub struct Replica {
    pub pool: PgPool,
    _server: PostgresServer,
}

async fn run(pool: &PgPool, statement: &'static str) {
    sqlx::query(statement).execute(pool).await.unwrap();
}

impl Replica {
    pub async fn of(primary: &PostgresServer, database: &PgPool) -> Replica {
        let server = primary.standby();
        let pool = pool(server.on(database.connect_options().get_database().unwrap()));
        run(&pool, "ALTER SYSTEM SET primary_conninfo = ''").await;
        run(&pool, "SELECT pg_reload_conf()").await;
        let receivers = "SELECT count(*) FROM pg_stat_wal_receiver";
        let cut_off = async || sqlx::query_scalar(receivers).fetch_one(&pool).await.unwrap_or(1_i64) == 0;
        until("it is cut off", cut_off).await;
        Replica { pool, _server: server }
    }

    pub async fn promote(&self, primary: &mut PostgresServer) {
        primary.kill();
        run(&self.pool, "SELECT pg_promote()").await;
    }
}
