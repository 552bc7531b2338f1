//! The same in the words of PostgreSQL.

/// The row has expired, and was not released.
pub const EXPIRE: &str = "UPDATE fencing_leases
    SET expires_at = clock_timestamp() - interval '1 s' WHERE expires_at > clock_timestamp()";

/// The row is set free, as an operator may do it.
pub const FREE: &str = "UPDATE fencing_leases SET expires_at = '-infinity'";

/// The row never expires.
pub const CLOSE_FOR_EVER: &str = "UPDATE fencing_leases SET expires_at = 'infinity'";

/// When the row expires, in milliseconds.
pub const EXPIRES_AT: &str = "SELECT (extract(epoch FROM expires_at) * 1000)::bigint
    FROM fencing_leases WHERE resource = $1";

/// The name of the only row's owner.
pub const OWNER: &str = "SELECT owner::bytea FROM fencing_leases";

/// The resource gets this mark.
pub const MARK: &str = "INSERT INTO fencing_marks (resource, token) VALUES ($1, $2)
    ON CONFLICT (resource) DO UPDATE SET token = excluded.token";

/// The clock is set back by an hour, and forward again: what counts is the distance to the row.
pub const BACK: &str = "UPDATE fencing_leases SET expires_at = expires_at + interval '1 h', clock_anomaly_since = clock_anomaly_since + interval '1 h'";
pub const FORTH: &str = "UPDATE fencing_leases SET expires_at = expires_at - interval '1 h', clock_anomaly_since = clock_anomaly_since - interval '1 h'";

/// The same for the ends of parts, and for a wait until all who share it have left.
pub const PART_BACK: &str = "UPDATE fencing_leases SET parts = (
    SELECT jsonb_object_agg(key, value::bigint + 3600000000) FROM jsonb_each_text(parts))";
/// For how many milliseconds the wait keeps others from joining.
pub const DRAINS_FOR: &str = "SELECT (extract(epoch FROM draining_until - draining_since) * 1000)::bigint FROM fencing_leases";
pub const DRAINED_LATER: &str = "UPDATE fencing_leases
    SET draining_since = draining_since + interval '1 h', draining_until = draining_until + interval '1 h'";
pub const DRAINED_EARLIER: &str = "UPDATE fencing_leases
    SET draining_since = draining_since - interval '25 s', draining_until = draining_until - interval '25 s'";

/// How many sessions the database has.
pub async fn sessions(pool: &sqlx::PgPool) -> Option<i64> {
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()";
    Some(sqlx::query_scalar(count).fetch_one(pool).await.unwrap())
}

/// Whether the parts of a row that several share carry names.
pub const PARTS_HAVE_NAMES: bool = true;

/// The isolation levels in which conflicts fail.
pub const LEVELS: &[&[(&str, &str)]] = &[
    &[("default_transaction_isolation", "repeatable read")],
    &[("default_transaction_isolation", "serializable")],
];

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
